//! A YAML document as a tree in which every node knows its line.
//!
//! The usual way, deserializing into structs, stops at the first error. A person who edits a file wants all of them,
//! so the file is read into this tree first and checked afterwards.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// A node of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its line, from 1.
    pub line: u64,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing is written, or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Anything else that is written.
    Text(String),
    /// Entries without names.
    List(Vec<Node>),
    /// Entries in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// The name of an entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its line, from 1.
    pub line: u64,
    /// What is written there; `null` where nothing is.
    pub name: String,
}

impl Value {
    /// What to call it in a message.
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Integer(value) => format!("`{value}`"),
            Self::Float(value) => format!("`{value}`"),
            Self::Text(text) => format!("`{}`", text.chars().take(64).collect::<String>()),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a section".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Option<String>>::deserialize(deserializer)?;
        let name = spanned.value.unwrap_or_else(|| "null".to_owned());
        Ok(Self { line: spanned.referenced.line(), name })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(|_| E::custom(format!("{value} is too large")))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_knows_its_line() {
        let text = "# a comment\nname: one\nsection:\n  count: 3\n\n  list: [a, b]\n  half: 0.5\n  on: true\n  empty:\n";
        let document: Node = serde_saphyr::from_str(text).unwrap();
        let Value::Map(top) = &document.value else { panic!("{document:?}") };
        assert_eq!(top[0].0.name, "name");
        assert_eq!((top[0].0.line, &top[0].1.value), (2, &Value::Text("one".into())));
        let Value::Map(section) = &top[1].1.value else { panic!("{document:?}") };
        let told: Vec<_> =
            section.iter().map(|(key, node)| (key.name.as_str(), key.line, node.line)).collect();
        assert_eq!(told[..4], [("count", 4, 4), ("list", 6, 6), ("half", 7, 7), ("on", 8, 8)]);
        assert_eq!(section[0].1.value, Value::Integer(3));
        assert_eq!(section[2].1.value, Value::Float(0.5));
        assert_eq!(section[3].1.value, Value::Bool(true));
        assert_eq!(section[4].1.value, Value::Null);
    }
}
