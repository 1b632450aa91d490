//! A merchant with an object for each form of the portal, and the tables in the portal's source and documentation, so that the
//! tests miss nothing that is added there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::receiver::Reply;

use super::Visitor;
use crate::invoices::draft;
use crate::support::{Merchant, Receiver, created, eventually, id, merchant, ok, payment, with};

/// A text in markup, wherever a merchant may enter a text, and how pages must show it.
pub(super) const MARKUP: &str = "<i>stored</i>";
pub(super) const ESCAPED: &str = "&lt;i&gt;stored&lt;/i&gt;";

/// The pages that are neither lists nor objects.
const PAGES: [&str; 8] = ["activity", "clock", "developers", "keys", "requests", "security", "settings", "team"];

fn read(path: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The number of elements in an array of the portal's source, and the source after it.
fn array<'a>(source: &'a str, declaration: &str) -> Result<(usize, &'a str)> {
    let (_, rest) = source.split_once(declaration).with_context(|| declaration.to_owned())?;
    let (count, rest) = rest.split_once(']').context("a length")?;
    Ok((count.parse()?, rest))
}

/// All actions of the portal: the page and the name of each.
pub(super) fn actions() -> Result<BTreeSet<(String, String)>> {
    let mut actions = BTreeSet::new();
    for file in ["portal_changes", "v1"] {
        let source = read(&format!("portal/src/actions/{file}.rs"))?;
        let ((count, table), before) = (array(&source, "ACTIONS: [Action; ")?, actions.len());
        // A call is on one line or on several.
        let table = table.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
        for (function, fixed) in [
            ("change", None),
            ("post", None),
            ("delete", None),
            ("action", None),
            ("on_object", None),
            ("create", Some("new")),
            ("update", Some("save")),
        ] {
            for call in table.split(&format!("{function}(\"")).skip(1) {
                let mut texts = call.split('"').step_by(2);
                let (page, second) = (texts.next().context("a page")?, texts.next());
                actions.insert((page.to_owned(), fixed.or(second).context("a name")?.to_owned()));
            }
        }
        ensure!(actions.len() - before == count, "{file}.rs has {count} actions, not these: {actions:?}");
    }
    Ok(actions)
}

/// All lists of the portal: the page and the resource of /v1.
fn lists() -> Result<Vec<(String, String)>> {
    let source = read("portal/src/catalog.rs")?;
    let (count, table) = array(&source, "LISTS: [List; ")?;
    let field = |list: &str, name: &str| {
        let value = list.split_once(&format!("{name}: \"")).and_then(|(_, rest)| rest.split('"').next());
        value.map(str::to_owned).with_context(|| format!("{name} in {list}"))
    };
    let lists = table.split("    List {\n").skip(1);
    let lists: Vec<_> =
        lists.map(|list| Ok((field(list, "path")?, field(list, "resource")?))).collect::<Result<_>>()?;
    ensure!(lists.len() == count, "{count} lists, not {lists:?}");
    Ok(lists)
}

/// The table of roles in the documentation.
pub(super) struct Roles(Vec<Vec<String>>);

impl Roles {
    pub(super) fn read() -> Result<Self> {
        let text = read("docs/portal.md")?;
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        Ok(Self(rows.map(cells).collect()))
    }

    /// Whether a role includes an action.
    pub(super) fn include(&self, role: &str, (page, name): (&str, &str)) -> Result<bool> {
        let row = match (page, name) {
            ("security", _) => "own password, second factor, passkeys, language, sessions",
            ("customers", "erase") => "delete a customer",
            ("keys" | "webhooks" | "deliveries" | "clock", _) => "keys, origins, endpoints, replays, test clock",
            ("settings" | "team", _) => "settings, team",
            _ => "payments, refunds, customers, billing",
        };
        let Self(rows) = self;
        let column = rows.first().and_then(|head| head.iter().position(|cell| cell == role)).context("a role")?;
        let row = rows.iter().find(|cells| cells.first().is_some_and(|cell| cell == row)).context("a row")?;
        match row.get(column).map(String::as_str) {
            Some("yes") => Ok(true),
            Some("no") => Ok(false),
            other => anyhow::bail!("{role}, {page}/{name}: {other:?}"),
        }
    }
}

/// The page and the name of an action, from the address of its form.
pub(super) fn parts(address: &str) -> (&str, &str) {
    let mut parts = address.split('/').skip(2);
    let page = parts.next().unwrap_or_default();
    (page, parts.last().unwrap_or_default())
}

/// The merchant. Nothing of it changes unless a test does something.
pub(super) struct Busy {
    pub(super) merchant: Merchant,
    pub(super) customer: String,
    pub(super) plan: String,
    pub(super) receiver: Receiver,
}

/// The addresses of pages and forms.
#[derive(Default)]
pub(super) struct Addresses {
    pub(super) pages: Vec<String>,
    pub(super) objects: Vec<String>,
    /// Where forms are sent to.
    pub(super) forms: BTreeSet<String>,
}

impl Busy {
    pub(super) async fn new() -> Result<Self> {
        let (merchant, receiver) = (merchant().await?, Receiver::start(|_| Reply::status(200)).await?);
        let api = &merchant.api;
        let disputed = created(&api.post("/v1/payments", payment(700, "tok_ok")).await?).clone();
        merchant.dispute(&id(&disputed)?).await?;
        let sold = with(payment(5_000, "tok_ok"), "description", MARKUP);
        let sold = id(created(&api.post("/v1/payments", sold).await?))?;
        merchant.refund(&sold, Some(100)).await?;
        merchant.wait_for_status(&sold, "partially_refunded").await?;
        // One to capture and one to void.
        merchant.hold(3_000).await?;
        merchant.hold(3_000).await?;
        let customer = json!({"email": "ada@shop.example", "name": MARKUP});
        let customer = id(created(&api.post("/v1/customers", customer).await?))?;
        // The second one is not the default.
        created(&merchant.save_card(&customer, "tok_ok").await?);
        created(&merchant.save_card(&customer, "tok_ok").await?);
        let plan = json!({"name": MARKUP, "amount": 800, "currency": "USD", "interval": "month"});
        let plan = id(created(&api.post("/v1/plans", plan).await?))?;
        merchant.set_logo().await?;
        // Nothing settles while a test compares.
        let later = "UPDATE payments SET inquiry_at = inquiry_at + interval '1 year' WHERE account_id = $1";
        sqlx::query(later).bind(merchant.books.account).execute(&merchant.books.db).await?;
        let busy = Self { merchant, customer, plan, receiver };
        busy.bill().await?;
        // It can be erased.
        busy.merchant.customer().await?;
        busy.deliver().await?;
        Ok(busy)
    }

    /// Creates what is billed, none of it now.
    async fn bill(&self) -> Result<()> {
        let (api, customer) = (&self.merchant.api, &self.customer);
        let template = json!({"currency": "USD", "paymentTerms": "net_7",
            "items": [{"description": MARKUP, "quantity": 1, "unitAmount": 500}]});
        let invoice = json!({"customerId": customer, "currency": "USD", "amount": 500, "description": MARKUP});
        let scheduled = id(created(&api.post("/v1/invoices", invoice.clone()).await?))?;
        let rule = |unit: &str| {
            json!({"customerId": customer, "name": MARKUP, "cadence": {"unit": unit}, "startDate": "2090-01-15",
                "template": template})
        };
        let link = json!({"amount": 900, "currency": "USD", "description": MARKUP, "externalId": MARKUP,
            "metadata": {"note": MARKUP}});
        for (path, body) in [
            ("/v1/invoices", invoice),
            ("/v1/payment_links", link),
            (
                "/v1/subscriptions",
                json!({"customerId": customer, "planId": self.plan, "startAt": "2090-01-01", "description": MARKUP}),
            ),
            ("/v1/recurring_invoices", rule("monthly")),
        ] {
            created(&api.post(path, body).await?);
        }
        let paused = id(created(&api.post("/v1/recurring_invoices", rule("weekly")).await?))?;
        ok(&api.post(&format!("/v1/recurring_invoices/{paused}/pause"), json!({})).await?);
        draft(&self.merchant, customer, "net_7").await?;
        let schedule = format!("/v1/invoices/{scheduled}/schedule");
        ok(&api.post(&schedule, json!({"collectAt": "2031-01-01T10:00:00Z"})).await?);
        Ok(())
    }

    /// Creates an endpoint, to which something was delivered.
    async fn deliver(&self) -> Result<()> {
        let api = &self.merchant.api;
        let endpoint = api.post("/v1/webhook_endpoints", json!({"url": self.receiver.url("/hook")})).await?;
        let test = format!("/v1/webhook_endpoints/{}/test", id(created(&endpoint))?);
        assert!(api.post(&test, json!({})).await?.status < 300);
        let is_delivered = async || {
            let found = api.get("/v1/webhook_deliveries?status=succeeded").await?;
            Ok((ok(&found)["data"].as_array().is_some_and(|rows| !rows.is_empty())).then_some(()))
        };
        eventually("a delivery succeeded", is_delivered).await
    }

    /// Opens every page, and returns them with the forms that the user sees there. Fails if one has the markup itself.
    pub(super) async fn addresses(&self, visitor: &Visitor) -> Result<Addresses> {
        let mut found = Addresses { pages: vec!["/test".to_owned()], ..Addresses::default() };
        found.pages.extend(PAGES.map(|page| format!("/test/{page}")));
        for (page, resource) in lists()? {
            found.pages.push(format!("/test/{page}"));
            // Events are many, and alike.
            let limit = if resource == "events" { "limit=3".to_owned() } else { "limit=100".to_owned() };
            let query = if resource == "payment_methods" { format!("customerId={}", self.customer) } else { limit };
            let listed = self.merchant.api.get(&format!("/v1/{resource}?{query}")).await?;
            let rows = ok(&listed)["data"].as_array().context("rows")?;
            ensure!(!rows.is_empty(), "the merchant has no {resource}");
            for row in rows {
                found.objects.push(format!("/test/{page}/{}", id(row)?));
            }
        }
        let is_list = |page: &str| found.pages.iter().any(|own| own.strip_prefix("/test/") == Some(page));
        let creations: Vec<_> = actions()?
            .into_iter()
            .filter(|(page, name)| name == "new" && !PAGES.contains(&page.as_str()) && is_list(page))
            .map(|(page, _)| format!("/test/{page}/new"))
            .collect();
        found.pages.extend(creations);
        let mut shown = 0;
        for page in found.pages.iter().chain(&found.objects) {
            let opened = visitor.open(page).await?;
            ensure!(opened.status == 200, "{page}: {}", opened.html);
            ensure!(!opened.html.contains("<i>"), "{page} has the markup: {}", opened.html);
            shown += usize::from(opened.html.contains(ESCAPED));
            let forms = opened.html.split("action=\"").skip(1).filter_map(|rest| rest.split('"').next());
            let forms = forms.filter(|form| form.starts_with("/test/") && form.split('/').count() > 3);
            found.forms.extend(forms.map(str::to_owned));
        }
        ensure!(shown >= 15, "only {shown} pages show the text");
        Ok(found)
    }
}
