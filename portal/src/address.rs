//! The addresses of pages: `/{mode}`, `/{mode}/{list}` and `/{mode}/{list}/{id}`.

use domain::accounts::Mode;

/// The mode that a page belongs to.
pub(crate) fn mode_of(text: &str) -> Option<Mode> {
    Mode::ALL.into_iter().find(|mode| mode.name() == text)
}

/// The prefix of an object's id and the list that it is in.
const LISTS: [(&str, &str); 10] = [
    ("pay_", "payments"),
    ("ref_", "refunds"),
    ("cus_", "customers"),
    ("rinv_", "recurring-invoices"),
    ("inv_", "invoices"),
    ("sub_", "subscriptions"),
    ("plink_", "payment-links"),
    ("plan_", "plans"),
    ("dp_", "disputes"),
    ("evt_", "events"),
];

/// The address of the object with this id, if it has a page.
pub(crate) fn of_object(mode: Mode, id: &str) -> Option<String> {
    let (_, list) = LISTS.iter().find(|(prefix, _)| id.starts_with(prefix))?;
    is_id(id).then(|| format!("/{}/{list}/{id}", mode.name()))
}

/// Whether a text has only the characters of an id.
pub(crate) fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_page() {
        let of = |id| of_object(Mode::Test, id);
        assert_eq!(of("inv_01KAJ4").as_deref(), Some("/test/invoices/inv_01KAJ4"));
        assert_eq!(of("rinv_01KAJ4").as_deref(), Some("/test/recurring-invoices/rinv_01KAJ4"));
        for other in ["", "pay", "pay_../x", "pay_1?x", "acct_1", "x_pay_1"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
