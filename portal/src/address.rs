//! The addresses of pages: `/{mode}`, `/{mode}/{page}` and, for an object, `/{mode}/{list}/{id}`.

use domain::accounts::Mode;

use crate::catalog::LISTS;

/// The longest address of a page, which is kept in a cookie.
const MAX_ADDRESS: usize = 1_000;

/// The mode that a page belongs to.
pub(crate) fn mode_of(text: &str) -> Option<Mode> {
    Mode::ALL.into_iter().find(|mode| mode.name() == text)
}

/// The address of the object with this id, if it has a page.
pub(crate) fn of_object(mode: Mode, id: &str) -> Option<String> {
    let is_ulid = |rest: &str| rest.len() == 26 && is_id(rest);
    let list = LISTS.iter().find(|list| id.strip_prefix(list.prefix).is_some_and(is_ulid))?;
    Some(format!("/{}/{}/{id}", mode.name(), list.path))
}

/// Whether a text has only the characters of an id.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a text is the address of a page of the portal, to which a browser can be sent: a path and a query, and nothing that
/// any browser reads as another host. A file, whose name has a dot, is no page.
pub(crate) fn is_page(text: &str) -> bool {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    text.len() <= MAX_ADDRESS
        && path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte))
        && query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_page_is_at_this_site() {
        for page in ["/", "/test", "/test/payments?q=a%2Fb.c&status=open", "/test/payments/pay_1?did=0"] {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "",
            "test",
            "/test/payments.csv",
            "//evil.example",
            "/\\evil.example",
            "/test//evil.example",
            "/%2F/evil.example",
            "/%5Cevil.example",
            "/\t/evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "/test?q=a\r\nSet-Cookie:x",
            "/test?q=\\",
            &format!("/{}", "a".repeat(1_000)),
        ] {
            assert!(!is_page(other), "{other}");
        }
    }

    #[test]
    fn an_id_leads_to_its_page() {
        let of = |id: &str| of_object(Mode::Test, id);
        let ulid = "01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
        for (prefix, list) in LISTS.map(|list| (list.prefix, list.path)) {
            assert_eq!(of(&format!("{prefix}{ulid}")), Some(format!("/test/{list}/{prefix}{ulid}")));
        }
        for other in ["", "pay_1", "inv_1001", "pay_../../../01KAJ4M2V8Q0S5T7", "acct_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
