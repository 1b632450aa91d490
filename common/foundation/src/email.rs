//! E-mail addresses.

/// Checks the form of an e-mail address: a local part, an at sign, and a domain with a dot.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '@');
    let parts = || domain.split('.');
    plain(local) && plain(domain) && parts().count() > 1 && parts().all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    #[test]
    fn an_email_has_a_local_part_and_a_domain() {
        for good in ["a@b.co", "first.last+tag@sub.example.com", "\u{e9}@example.com"] {
            assert!(is_email(good), "{good}");
        }
        for bad in ["", "a", "a@", "@b.co", "a@b", "a b@c.de", "a@b..co", "a@b.", "a@@b.co", "a@.co"] {
            assert!(!is_email(bad), "{bad}");
        }
    }

    #[test]
    fn an_email_has_one_at_sign_and_no_space() {
        check(prop_oneof![mutated("first.last+tag@sub.example.com"), texts()], |text| {
            let plain = text.matches('@').count() == 1 && !text.contains(char::is_whitespace) && text.contains('.');
            assert!(!is_email(&text) || plain, "{text}");
        });
    }
}
