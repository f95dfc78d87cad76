//! Which format a client wants, by RFC 9110 section 12.5.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName};

use crate::encode::Format;

/// The format for this request: the acceptable one with the highest weight, the earlier of equals. Text 0.0.4 where
/// nothing is asked for, or nothing that there is: a client that cannot read it will say so better than a 406.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let mut best: Option<(u16, Format)> = None;
    for (range, weight) in elements(headers, &ACCEPT) {
        let Some(format) = acceptable(range) else { continue };
        if weight > 0 && best.is_none_or(|(highest, _)| weight > highest) {
            best = Some((weight, format));
        }
    }
    best.map_or(Format::Text004, |(_, format)| format)
}

/// Whether the answer may be compressed with gzip.
pub(super) fn gzip(headers: &HeaderMap) -> bool {
    let mut any = None;
    for (coding, weight) in elements(headers, &ACCEPT_ENCODING) {
        match coding.split(';').next().unwrap_or_default().trim() {
            name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                return weight > 0;
            }
            "*" => any = Some(weight > 0),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

/// The format that a media range means, if there is one.
fn acceptable(range: &str) -> Option<Format> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?;
    let version = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("version").then(|| value.trim().trim_matches('"'))
    });
    let is = |name: &str| media.eq_ignore_ascii_case(name);
    match version {
        None | Some("1.0.0") if is("application/openmetrics-text") => Some(Format::OpenMetrics100),
        None | Some("0.0.4") if is("text/plain") => Some(Format::Text004),
        None if is("text/*") || is("*/*") => Some(Format::Text004),
        None if is("application/*") => Some(Format::OpenMetrics100),
        _ => None,
    }
}

/// The elements of a header, over all its lines, with their weights in thousandths.
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'a str, u16)> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|element| (element.trim(), weight(element)))
}

/// The parameter `q`; 1 where it is absent, 0 where it is no weight.
fn weight(element: &str) -> u16 {
    let given = element.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let Some(given) = given else { return 1000 };
    match given.parse::<f32>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0).round() as u16,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        [(name, HeaderValue::from_str(value).unwrap())].into_iter().collect()
    }

    fn format_for(accept: &str) -> Format {
        format(&with(ACCEPT, accept))
    }

    #[test]
    fn prometheus_gets_open_metrics() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            application/openmetrics-text;version=0.0.1;q=0.5,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [prometheus_2, prometheus_3, "application/openmetrics-text"] {
            assert_eq!(format_for(accept), Format::OpenMetrics100, "{accept}");
        }
    }

    #[test]
    fn everyone_else_gets_text() {
        for accept in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.3,text/plain;q=0.5",
            "application/openmetrics-text;q=nonsense",
            "image/png",
        ] {
            assert_eq!(format_for(accept), Format::Text004, "{accept}");
        }
        assert_eq!(format(&HeaderMap::new()), Format::Text004);
    }

    #[test]
    fn lines_of_one_header_count_together() {
        let mut headers = with(ACCEPT, "text/plain;q=0.5");
        headers.append(
            ACCEPT,
            HeaderValue::from_static("Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=0.9"),
        );
        assert_eq!(format(&headers), Format::OpenMetrics100);
    }

    #[test]
    fn gzip_is_for_those_who_ask() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("*, gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(gzip(&with(ACCEPT_ENCODING, value)), expected, "{value}");
        }
        assert!(!gzip(&HeaderMap::new()));
    }

    proptest! {
        #[test]
        fn any_header_is_survived(value in "[ -~]{0,60}") {
            format_for(&value);
            gzip(&with(ACCEPT_ENCODING, &value));
        }
    }
}
