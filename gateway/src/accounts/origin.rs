//! Origins of pages, as accounts register them.

use url::Url;

/// Whether the text is a serialized origin made of characters without a meaning in a CSP or in HTML. Host names may
/// contain others: `https://*` is a valid URL.
pub fn is_origin(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c);
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    text.chars().all(plain) && url.is_some_and(|url| url.origin().ascii_serialization() == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn only_serialized_origins_are_accepted() {
        for good in ["https://shop.example", "http://localhost:3000", "https://[2001:db8::1]", "http://a_b-c.example"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in
            ["", "null", "*", "https://shop.example/", "https://SHOP.example", "https://a.example https://b.example"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
        for c in "\"';*=()&,$!+`{}~".chars() {
            assert!(!is_origin(&format!("https://a{c}b.example")), "{c}");
        }
    }

    #[test]
    fn accepted_origins_are_safe_in_a_csp_and_in_html() {
        check(prop_oneof![mutated("https://shop.example:8443"), mutated("http://[::1]:80"), texts()], |text| {
            if is_origin(&text) {
                assert!(!text.contains(|c: char| c.is_whitespace() || "\"'<>;,*&\\".contains(c)), "{text}");
                assert!(text.starts_with("https://") || text.starts_with("http://"), "{text}");
            }
        });
    }
}
