//! The pointers that a C caller hands over, as types that are safe to use.
//!
//! The contract of the C ABI enters here and nowhere else: a pointer that is not null points to what the symbol's
//! declaration says, and stays valid during the call. A null pointer is answered with `INVALID_ARGUMENT`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_uint};

use super::code::{ARGUMENT_VERSION_MISMATCH, Answer, INSUFFICIENT_SIZE, INVALID_ARGUMENT};

/// A place for one value.
pub(super) struct Out<T>(*mut T);

impl<T> From<*mut T> for Out<T> {
    fn from(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

impl<T> Out<T> {
    /// Whether the caller wants no value.
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Hands the value over.
    pub(super) fn set(&self, value: T) -> Answer {
        if self.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, so by the ABI's contract a valid place for a T; what lay there is plain data, not dropped.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// What the caller put there: for arguments that go both ways.
    pub(super) fn get(&self) -> Answer<T> {
        if self.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, so by the ABI's contract it points to a T that the caller has filled in; T is a plain C type.
        Ok(unsafe { self.0.read() })
    }
}

impl<T> Out<T> {
    /// The same place under a smaller or another version's type, for structs that begin with their version.
    pub(super) fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }

    /// An array that lies within the struct, at an offset in bytes.
    pub(super) fn field<U>(&self, offset: usize) -> Array<U> {
        Array(if self.is_null() { std::ptr::null_mut() } else { self.0.wrapping_byte_add(offset).cast() })
    }

    /// The first word of a versioned struct.
    pub(super) fn version(&self) -> Answer<c_uint> {
        self.cast::<c_uint>().get()
    }

    /// Checks the first word of a versioned struct that has one version only.
    pub(super) fn check_version(&self, version: u32) -> Answer {
        if self.version()? == version_word::<T>(version) { Ok(()) } else { Err(ARGUMENT_VERSION_MISMATCH) }
    }
}

/// The version word of a struct: its size, and its version in the upper byte (source: `NVML_STRUCT_VERSION`).
pub(super) const fn version_word<T>(version: u32) -> u32 {
    // No struct of the ABI comes near 16 MiB.
    (size_of::<T>() as u32) | (version << 24)
}

/// A value that the caller hands in.
pub(super) struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(pointer: *const T) -> Self {
        Self(pointer)
    }
}

impl<T: Copy> In<T> {
    /// The value.
    pub(super) fn get(&self) -> Answer<T> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, so by the ABI's contract it points to a T that the caller has filled in; T is a plain C type.
        Ok(unsafe { self.0.read() })
    }
}

/// An array that the caller has room for; how much room is a separate argument.
pub(super) struct Array<T>(*mut T);

impl<T> From<*mut T> for Array<T> {
    fn from(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

impl<T: Copy> Array<T> {
    /// Whether the caller only asks how many there are.
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Element `index` of an array that the caller has filled in.
    pub(super) fn element(&self, index: usize) -> Out<T> {
        // wrapping_add: whoever uses the element vouches that it lies within the caller's array.
        Out(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// Hands over all of `items`; the caller knows that there is room.
    pub(super) fn fill(&self, items: &[T]) -> Answer {
        items.iter().enumerate().try_for_each(|(index, item)| self.element(index).set(*item))
    }

    /// The driver's way with lists: `count` comes in as the room there is and goes out as how many there are. Too
    /// little room is `INSUFFICIENT_SIZE`.
    pub(super) fn list(&self, count: &Out<c_uint>, items: &[T]) -> Answer {
        let room = count.get()?;
        let length = items.len() as c_uint;
        count.set(length)?;
        if length == 0 {
            return Ok(());
        }
        if room < length || self.is_null() {
            return Err(INSUFFICIENT_SIZE);
        }
        self.fill(items)
    }
}

/// A place for a text.
pub(super) struct Text(*mut c_char);

impl From<*mut c_char> for Text {
    fn from(pointer: *mut c_char) -> Self {
        Self(pointer)
    }
}

impl Text {
    /// Hands over the text and its NUL, if there is room for them in `length` bytes.
    pub(super) fn set(&self, length: c_uint, text: &str) -> Answer {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        if (length as usize) <= text.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        let characters: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
        Array(self.0).fill(&characters)
    }
}

/// A text in a struct's array, cut to fit, NUL included.
pub(super) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    let room = N.saturating_sub(1);
    array.iter_mut().zip(text.bytes().take(room)).for_each(|(to, from)| *to = from as c_char);
    array
}

/// A text that the caller hands in.
pub(super) struct Given(*const c_char);

impl From<*const c_char> for Given {
    fn from(pointer: *const c_char) -> Self {
        Self(pointer)
    }
}

impl Given {
    /// The text.
    pub(super) fn get(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, so by the ABI's contract a C string.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| INVALID_ARGUMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_pointers_are_refused() {
        assert_eq!(Out::<u32>::from(std::ptr::null_mut()).set(1), Err(INVALID_ARGUMENT));
        assert_eq!(Out::<u32>::from(std::ptr::null_mut()).get(), Err(INVALID_ARGUMENT));
        assert_eq!(Text::from(std::ptr::null_mut()).set(10, "a"), Err(INVALID_ARGUMENT));
        assert_eq!(Given::from(std::ptr::null()).get(), Err(INVALID_ARGUMENT));
    }

    #[test]
    fn a_text_needs_room_for_its_nul() {
        let mut room = [1 as c_char; 8];
        let text = Text::from(room.as_mut_ptr());
        assert_eq!(text.set(3, "abc"), Err(INSUFFICIENT_SIZE));
        assert_eq!(room[0], 1, "nothing is written without room");
        let text = Text::from(room.as_mut_ptr());
        assert_eq!(text.set(4, "abc"), Ok(()));
        assert_eq!(room.map(|c| c as u8), [b'a', b'b', b'c', 0, 1, 1, 1, 1]);
    }

    #[test]
    fn a_list_says_how_much_room_it_needs() {
        let mut count = 1;
        let mut room = [0; 4];
        assert_eq!(
            Array::from(room.as_mut_ptr()).list(&Out::from(&raw mut count), &[7, 8]),
            Err(INSUFFICIENT_SIZE)
        );
        assert_eq!((count, room[0]), (2, 0));
        assert_eq!(Array::from(room.as_mut_ptr()).list(&Out::from(&raw mut count), &[7, 8]), Ok(()));
        assert_eq!((count, room), (2, [7, 8, 0, 0]));
        assert_eq!(Array::<u32>::from(std::ptr::null_mut()).list(&Out::from(&raw mut count), &[]), Ok(()));
        assert_eq!(count, 0);
    }

    #[test]
    fn version_words_are_size_and_version() {
        assert_eq!(version_word::<nvml_wrapper_sys::bindings::nvmlMemory_v2_t>(2), 40 | 2 << 24);
    }
}
