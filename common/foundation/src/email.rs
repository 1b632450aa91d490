//! E-mail addresses.

/// The longest address, in characters.
pub const MAX_LENGTH: usize = 254;

/// Whether a text is one `local@domain`, without a display name, comments or blanks. The domain may be international.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    text.chars().count() <= MAX_LENGTH && is_local_part(local) && is_domain(domain)
}

/// Whether a text is an e-mail address that mail servers on the internet can send to.
pub fn is_internet_email(text: &str) -> bool {
    is_email(text) && !text.contains('"') && text.rsplit_once('@').is_some_and(|(_, domain)| domain.contains('.'))
}

/// Plain text, or a quoted text that would be ambiguous without its quotation marks, such as `"a@b"`.
fn is_local_part(text: &str) -> bool {
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_quotable = |c: char| !is_blank(c) && c != '"' && c != '\\';
    quoted.is_some_and(|text| !text.is_empty() && text.chars().all(is_quotable)) || is_plain(text)
}

fn is_domain(text: &str) -> bool {
    is_plain(text) && !text.contains('%') && text.split('.').all(|label| !label.is_empty())
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(|c| is_blank(c) || "()<>[]:;,\\\"@".contains(c))
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// The pattern of an address, in the syntax that all dialects of regular expressions share.
pub fn pattern() -> String {
    // The characters of `is_blank`.
    let blank = r"\u0000-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";
    let plain = format!(r#"{blank}()<>\[\]:;,\\"@"#);
    format!(r#"^([^{plain}]+|"[^{blank}\\"]+")@[^{plain}%.]+(\.[^{plain}%.]+)*$"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn an_email_is_one_local_part_and_one_domain() {
        for good in [
            "a@b.co",
            "first.last+tag@sub.example.com",
            "o'brien@b.co",
            "a..b@b.co",
            "\u{e9}@example.com",
            "a@m\u{fc}ller.example",
            "\u{9001}@\u{4f8b}.jp",
        ] {
            assert!(is_email(good) && is_internet_email(good), "{good}");
        }
        for inner in ["a@b", "root@localhost", "\"a@b\"@example.com", "\"a,b\"@example.com"] {
            assert!(is_email(inner) && !is_internet_email(inner), "{inner}");
        }
        let (longest, too_long) = (format!("{}@b.co", "x".repeat(249)), format!("{}@b.co", "x".repeat(250)));
        assert!(is_email(&longest) && !is_email(&too_long));
        for bad in [
            "",
            "a",
            "a@",
            "@b.co",
            "a b@c.de",
            "a@b..co",
            "a@b.",
            "a@.co",
            "a@@b.co",
            "a@b.de,c@d.de",
            "a@b.de;c@d.de",
            "<a@b.de>",
            "A <a@b.de>",
            "a@b.de (A)",
            "(A)a@b.de",
            "a@[192.0.2.1]",
            "a@b%2ede",
            "a@b.de\n",
            "\"a b\"@c.de",
            "\"\"@c.de",
            "\"a@c.de",
        ] {
            assert!(!is_email(bad), "{bad}");
        }
    }

    #[test]
    fn an_email_outside_quotation_marks_has_one_at_sign_and_no_blank() {
        check(prop_oneof![mutated("first.last+tag@sub.example.com"), texts()], |text| {
            let plain = text.matches('@').count() == 1 || text.starts_with('"');
            assert!(!is_email(&text) || plain && !text.contains(is_blank), "{text}");
            assert!(is_email(&text) || !is_internet_email(&text));
        });
    }
}
