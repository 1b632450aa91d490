//! Every form of the portal: who may send it, that it never reaches another merchant, and that what it changes is in the log.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::PortalUser;

use super::acting::version;
use super::busy::{Addresses, Busy, MARKUP, Roles, actions, parts};
use super::logo::{BLUE, file};
use super::team::code;
use super::{Page, Visitor, passkeys, user};
use crate::support::{Merchant, merchant, ok};

/// The page and the name of each action.
type Actions = BTreeSet<(String, String)>;

/// The lists of /v1 with what forms can change.
const CHANGED: [&str; 10] = [
    "payments",
    "customers",
    "invoices",
    "recurring_invoices",
    "subscriptions",
    "payment_links",
    "plans",
    "webhook_endpoints",
    "webhook_deliveries",
    "refunds",
];

/// What an owner enters, wherever there is such a field.
const ENTERED: [(&str, &str); 27] = [
    ("confirm", "yes"),
    ("amount", "1.00"),
    ("currency", "USD"),
    ("description", "Rent"),
    ("email", "eve@shop.example"),
    ("name", "Eve"),
    ("externalId", "eve-1"),
    ("customerId", "cus_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"),
    ("planId", "plan_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7"),
    ("interval", "month"),
    ("collectAt", "2031-01-01T10:00"),
    ("url", "https://eve.example/hook"),
    ("status", "enabled"),
    ("role", "viewer"),
    ("kind", "secret"),
    ("to", "2031-01-01T10:00"),
    ("timezone", "UTC"),
    ("language", "German"),
    ("current", "not the password"),
    ("password", "another long password"),
    ("code", "123456"),
    ("secret", "JBSWY3DPEHPK3PXP"),
    ("cadence.unit", "monthly"),
    ("template.currency", "USD"),
    ("template.items.0.description", "Rent"),
    ("template.items.0.unitAmount", "5.00"),
    ("template.paymentTerms", "net_7"),
];

/// A nonce of the user's own: the beginning of the cookie, and a number.
fn nonce(cookie: &str, number: usize) -> Result<String> {
    Ok(format!("{}{number:04x}", cookie.get(..28).context("a cookie")?))
}

/// Everything of a merchant that forms can change.
async fn state(busy: &Busy, owner: &Visitor) -> Result<Vec<Value>> {
    let (merchant, mut state) = (&busy.merchant, Vec::new());
    for list in CHANGED {
        state.push(merchant.api.get(&format!("/v1/{list}?limit=100")).await?.body.clone());
    }
    let cards = format!("/v1/payment_methods?customerId={}", busy.customer);
    state.push(merchant.api.get(&cards).await?.body.clone());
    for page in ["keys", "team", "settings", "security"] {
        // Without what each opening has of its own: nonces, the secret that is offered for a second factor, and when a
        // session was last active.
        let html = owner.open(&format!("/test/{page}")).await?.html;
        let rows = html.split("<tr>").skip(1).map(|row| row.split("name=\"nonce\"").next().unwrap_or_default());
        let without_times = |row: &str| {
            let parts = row.split("<time").map(|part| part.split_once("</time>").map_or(part, |(_, rest)| rest));
            parts.collect::<String>()
        };
        state.push(rows.map(without_times).collect::<Vec<_>>().into());
    }
    Ok(state)
}

#[tokio::test]
async fn every_form_is_for_its_roles_and_its_merchant_only_and_is_logged() -> Result<()> {
    let busy = Busy::new().await?;
    let user = user(&busy.merchant, "owner").await?;
    // A session that can be ended, a passkey and a colleague who can be removed.
    Visitor::new().await?.with_session(&user).await?;
    let mut owner = Visitor::new().await?.with_session(&user).await?;
    passkeys::add(&mut owner, &user.password).await?;
    super::user(&busy.merchant, "viewer").await?;
    let invited = [("email", "bob@shop.example"), ("role", "viewer")];
    owner.act("/test/team", "/test/team/new", &invited).await?;
    owner.act("/test/keys", "/test/keys/new", &[("kind", "secret"), ("name", MARKUP)]).await?;
    let settings = [("name", "Ada's"), ("timezone", "UTC"), ("supportContact", MARKUP), ("address", MARKUP)];
    owner.act("/test/settings", "/test/settings/save", &settings).await?;

    let (actions, addresses) = (actions()?, busy.addresses(&owner).await?);
    let kinds: BTreeSet<_> = addresses.forms.iter().map(|address| parts(address)).collect();
    let unseen: Vec<_> =
        actions.iter().filter(|(page, name)| !kinds.contains(&(page.as_str(), name.as_str()))).collect();
    let of_factor = ["recovery-codes", "remove-factor"].map(|name| ("security".to_owned(), name.to_owned()));
    assert_eq!(unseen, of_factor.iter().collect::<Vec<_>>(), "every form is on a page, once there is a factor");

    each_role_does_what_is_documented(&busy.merchant, &owner, &actions).await?;
    no_other_merchant_reaches_anything(&busy, &owner, &addresses).await?;
    every_change_is_logged(&busy, owner, &user, (&actions, &addresses.forms)).await
}

/// Without a nonce, a form is refused once it is known that the role includes it.
async fn each_role_does_what_is_documented(merchant: &Merchant, owner: &Visitor, actions: &Actions) -> Result<()> {
    let (roles, form) = (Roles::read()?, [("confirm", "yes")]);
    let mut addresses = Vec::new();
    for (page, name) in actions {
        let mut existing = Vec::new();
        for address in [format!("/test/{page}/{name}"), format!("/test/{page}/unknown/{name}")] {
            match owner.post(&address, &owner.url, &form).await?.status {
                404 => {}
                422 => existing.push(address),
                status => panic!("{address}: {status}"),
            }
        }
        let [address] = &existing[..] else { panic!("{page}/{name}: {existing:?}") };
        assert_eq!(owner.post(address, "https://evil.example", &form).await?.status, 403, "{address}");
        addresses.push(((page.as_str(), name.as_str()), address.clone()));
    }
    for role in ["viewer", "support", "developer", "owner"] {
        let visitor = Visitor::signed_in(merchant, role).await?;
        for (action, address) in &addresses {
            let page = visitor.post(address, &visitor.url, &form).await?;
            let expected = if roles.include(role, *action)? { 422 } else { 403 };
            assert_eq!(page.status, expected, "{role} {address}: {}", page.html);
        }
    }
    Ok(())
}

/// Neither with its ids in addresses nor in forms.
async fn no_other_merchant_reaches_anything(busy: &Busy, owner: &Visitor, addresses: &Addresses) -> Result<()> {
    let other = merchant().await?;
    let (before, foreign) = (state(busy, owner).await?, Visitor::signed_in(&other, "owner").await?);
    let of_objects: Vec<_> = addresses.forms.iter().filter(|address| address.split('/').count() == 5).collect();
    for address in addresses.objects.iter().chain(of_objects.iter().copied()) {
        assert_eq!(foreign.open(address).await?.status, 404, "{address}");
    }
    for (number, address) in of_objects.into_iter().enumerate() {
        let nonce = nonce(&foreign.cookie, number)?;
        let page = foreign.send(address, &nonce, &ENTERED).await?;
        assert_eq!(page.status, 404, "{address}: {}", page.html);
        assert_eq!(foreign.send(address, &nonce, &ENTERED).await?.status, 404, "{address} again");
    }
    let refunds = busy.merchant.api.get("/v1/refunds").await?;
    let sold = ok(&refunds)["data"][0]["paymentId"].as_str().context("a payment")?.to_owned();
    for (page, filter, id) in [
        ("payments", "customerId", &busy.customer),
        ("cards", "customerId", &busy.customer),
        ("invoices", "customerId", &busy.customer),
        ("recurring-invoices", "customerId", &busy.customer),
        ("subscriptions", "planId", &busy.plan),
        ("refunds", "paymentId", &sold),
    ] {
        let list = foreign.open(&format!("/test/{page}?{filter}={id}")).await?;
        assert!(!list.html.contains("<tbody>"), "{page}: {}", list.html);
    }
    let own = other.customer().await?;
    for (number, (page, customer)) in [
        ("invoices", &busy.customer),
        ("recurring-invoices", &busy.customer),
        ("subscriptions", &busy.customer),
        ("subscriptions", &own),
    ]
    .into_iter()
    .enumerate()
    {
        let form = [&[("customerId", customer.as_str()), ("planId", busy.plan.as_str())][..], &ENTERED].concat();
        let address = format!("/test/{page}/new");
        let refused = foreign.send(&address, &nonce(&foreign.cookie, 0x1000 + number)?, &form).await?;
        assert_eq!(refused.status, 422, "{page}: {}", refused.html);
        let made = other.api.get(&format!("/v1/{}", page.replace('-', "_"))).await?;
        assert_eq!(ok(&made)["data"], json!([]), "{page}");
    }
    assert_eq!(state(busy, owner).await?, before);
    Ok(())
}

/// What is entered in a form of the owner, whose password is `current`.
async fn entered(
    (busy, owner): (&Busy, &Visitor),
    address: &str,
    current: &str,
) -> Result<Vec<(&'static str, String)>> {
    let later = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '3 minutes', 'YYYY-MM-DD\"T\"HH24:MI')";
    let mut own = vec![
        ("customerId", busy.customer.clone()),
        ("planId", busy.plan.clone()),
        ("url", busy.receiver.url("/hook")),
        ("current", current.to_owned()),
    ];
    match parts(address) {
        ("plans" | "invoices" | "payment-links", "save") => {
            let object = owner.open(address.strip_suffix("/save").unwrap_or_default()).await?;
            own.push(("version", version(&object)?.to_owned()));
        }
        ("security", "factor") => {
            let page = owner.open("/test/security").await?;
            let secret = page.text_after("Secret: <code>")?;
            own.extend([("code", code(secret, 0)?), ("secret", secret.to_owned())]);
        }
        ("security", "add-passkey") => own.push(("credential", passkeys::made(owner).await?.1)),
        // The log is read in English afterwards.
        ("security", "language") => own.push(("language", "en".to_owned())),
        ("clock", _) => own.push(("to", sqlx::query_scalar(later).fetch_one(&busy.merchant.books.db).await?)),
        _ => {}
    }
    own.extend(ENTERED.map(|(name, value)| (name, value.to_owned())));
    Ok(own)
}

/// Each action is done once, those that end something last. The newest object that has the form is the one to be changed,
/// except that one payment is captured and another one voided.
async fn every_change_is_logged(
    busy: &Busy,
    mut owner: Visitor,
    user: &PortalUser,
    (actions, forms): (&Actions, &BTreeSet<String>),
) -> Result<()> {
    let mut ordered: Vec<_> = actions.iter().map(|(page, name)| (page.as_str(), name.as_str())).collect();
    ordered.sort_by_key(|(_, name)| match *name {
        "advance" => 2,
        "cancel" | "erase" | "remove" | "revoke" => 1,
        _ => 0,
    });
    let (first, mut current) = (owner.cookie.clone(), user.password.clone());
    let (mut nonces, mut problems) = (Vec::new(), Vec::new());
    for (number, (page, name)) in ordered.into_iter().enumerate() {
        let mut seen = forms.iter().filter(|address| parts(address) == (page, name));
        let seen = if name == "capture" { seen.next() } else { seen.next_back() };
        let address = seen.cloned().unwrap_or_else(|| format!("/test/{page}/{name}"));
        let nonce = nonce(&first, number)?;
        let done: Page = if (page, name) == ("settings", "logo") {
            owner.send_file(&address, &nonce, ("logo", &file(BLUE)?)).await?
        } else {
            let form = entered((busy, &owner), &address, &current).await?;
            let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
            owner.send(&address, &nonce, &form).await?
        };
        if !(done.status == 303 && done.location().ends_with(&nonce)) {
            problems.push(format!("{address}: {} {:?}", done.status, done.text_after("role=\"alert\">").ok()));
        }
        if let Some(cookie) = done.cookie() {
            cookie.clone_into(&mut owner.cookie);
        }
        if (page, name) == ("security", "password") {
            current = "another long password".to_owned();
        }
        nonces.push(nonce);
    }
    assert!(problems.is_empty(), "{problems:#?}");
    let done = "SELECT a.action, coalesce(a.object, '') FROM user_actions a JOIN users u ON u.id = a.user_id
                WHERE a.nonce = ANY ($1) AND u.email = $2";
    let done = sqlx::query_as(done).bind(&nonces).bind(&user.email);
    let done: Vec<(String, String)> = done.fetch_all(&busy.merchant.books.db).await?;
    assert_eq!(done.len(), actions.len());
    let log = owner.open("/test/activity").await?.html;
    for (action, object) in done {
        let words = action.replace(['_', '.'], " ");
        let (initial, rest) = words.split_at(1);
        let who_and_what = format!("<td>{}</td><td>{}{rest}</td>", user.email, initial.to_uppercase());
        let is_it = |row: &str| {
            let parts = [who_and_what.as_str(), object.as_str(), "<time"];
            parts.iter().all(|part| row.contains(part)) && (row.contains("Done") || row.contains("Requested"))
        };
        assert!(log.split("<tr>").any(is_it), "{who_and_what} {object} in {log}");
    }
    Ok(())
}
