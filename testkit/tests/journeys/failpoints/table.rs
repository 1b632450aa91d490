//! Every failpoint, who comes by it, what leads there, and where it ends. The sources and this table name the same points.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use By::{Api, Scheduler, Worker};
use Class::{A, B, C};
use End::{Done, Person, PersonUnlessLate};

/// Whose process comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Api,
    Worker,
    Scheduler,
}

/// What the mock offers to whoever lost an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    A,
    B,
    C,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Story {
    /// A payment under a key.
    Sale(Class),
    /// A payment without one.
    SaleWithoutKey,
    /// A payment whose worker died before the provider heard of it.
    InDoubt(Class),
    /// A payment whose worker died after the provider had charged.
    Charged(Class),
    /// A payment that the provider will not serve, at first.
    Refused,
    /// The provider's statement shows a charge of a payment that has failed.
    Late,
    /// The reversal of such a charge.
    Reversal,
    /// A payment whose cardholder is to be asked, at the card gateway.
    Challenge,
    Capture,
    Void,
    Refund(Class),
    /// A refund whose worker died before the provider heard of it.
    RefundInDoubt(Class),
    /// A refund that the provider does not process, at first.
    RefundAway(Class),
    /// A card is saved.
    Card,
    /// Something is created under a key.
    Create(Create),
    /// What invoices, links and subscriptions have of their own.
    Bill(Bill),
    /// A charge has settled, and the provider is asked.
    Settlement,
    /// A test clock is advanced, and a charge settles on the way.
    Clock,
    /// An endpoint is told of a payment.
    Webhook,
}

/// What is created under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    Customer,
    Address,
    Plan,
    Endpoint,
    Link,
}

/// What is asked for of an invoice, a link or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bill {
    /// An invoice is paid on its page.
    Page,
    /// An invoice is collected.
    Collection,
    /// An invoice is due whose customer has no card.
    NoCard,
    /// An invoice is voided.
    VoidInvoice,
    /// A link is paid.
    Link,
    /// A link is paid in part, which is given back.
    Part,
    /// The same, and the provider would not give it back at first.
    PartBack,
    /// An invoice is made by hand.
    NewInvoice,
    /// A link is made.
    NewLink,
    /// A recurring invoice is made.
    NewRecurring,
    /// A subscription is made, and its first cycle billed.
    Subscription,
    /// A cycle of a subscription falls due.
    Cycle,
    /// A cycle of a recurring invoice falls due.
    Recurring,
}

/// Where it must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Done, once.
    Done,
    /// Unknown: nobody but a person can find out.
    Person,
    /// The same, unless the process was only late: what it says at last is a fact.
    PersonUnlessLate,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) point: &'static str,
    pub(super) by: By,
    pub(super) story: Story,
    pub(super) end: End,
}

const fn row(by: By, point: &'static str, story: Story) -> Row {
    Row { point, by, story, end: Done }
}

const fn unknown(end: End, point: &'static str, story: Story) -> Row {
    Row { point, by: Worker, story, end }
}

/// In the order in which one operation would come by: a process that is told of several points stops a story at the one that
/// it is for, because those before it have been used up.
pub(super) const TABLE: &[Row] = &[
    row(Api, "take_payment.written", Story::Sale(A)),
    row(Api, "take_payment.committed", Story::Sale(A)),
    row(Api, "take_payment.written_at_once", Story::SaleWithoutKey),
    row(Api, "change_payment.written", Story::Capture),
    row(Api, "change_payment.written", Story::Void),
    row(Api, "change_payment.written", Story::Refund(A)),
    row(Api, "change_payment.committed", Story::Capture),
    row(Api, "change_payment.committed", Story::Void),
    row(Api, "change_payment.committed", Story::Refund(A)),
    row(Api, "save_card.written", Story::Card),
    row(Api, "save_card.committed", Story::Card),
    row(Api, "create_customer.written", Story::Create(Create::Customer)),
    row(Api, "create_customer.committed", Story::Create(Create::Customer)),
    row(Api, "create_address.committed", Story::Create(Create::Address)),
    row(Api, "create_plan.committed", Story::Create(Create::Plan)),
    row(Api, "create_webhook_endpoint.committed", Story::Create(Create::Endpoint)),
    row(Api, "pay_page.written", Story::Bill(Bill::Page)),
    row(Api, "pay_page.written", Story::Bill(Bill::Link)),
    row(Api, "pay_page.committed", Story::Bill(Bill::Page)),
    row(Api, "pay_page.committed", Story::Bill(Bill::Link)),
    row(Api, "collect_invoices.written", Story::Bill(Bill::Collection)),
    row(Api, "collect_invoices.committed", Story::Bill(Bill::Collection)),
    row(Api, "collect_invoices.failed_without_card", Story::Bill(Bill::NoCard)),
    row(Api, "void_invoice.written", Story::Bill(Bill::VoidInvoice)),
    row(Api, "create_subscription.written", Story::Bill(Bill::Subscription)),
    row(Api, "create_subscription.committed", Story::Bill(Bill::Subscription)),
    row(Api, "create_invoice.written", Story::Bill(Bill::NewInvoice)),
    row(Api, "create_invoice.committed", Story::Bill(Bill::NewInvoice)),
    row(Api, "create_payment_link.written", Story::Bill(Bill::NewLink)),
    row(Api, "create_payment_link.committed", Story::Create(Create::Link)),
    row(Api, "create_recurring_invoice.written", Story::Bill(Bill::NewRecurring)),
    row(Api, "create_recurring_invoice.committed", Story::Bill(Bill::NewRecurring)),
    row(Scheduler, "schedule.taken", Story::InDoubt(A)),
    row(Scheduler, "schedule.taken", Story::Charged(B)),
    row(Scheduler, "schedule.taken", Story::Settlement),
    row(Scheduler, "schedule.taken", Story::Late),
    row(Scheduler, "schedule.taken", Story::Clock),
    row(Scheduler, "schedule.taken", Story::Webhook),
    row(Scheduler, "run_subscriptions.written", Story::Bill(Bill::Cycle)),
    row(Scheduler, "run_subscriptions.committed", Story::Bill(Bill::Cycle)),
    row(Scheduler, "run_recurring_invoices.written", Story::Bill(Bill::Recurring)),
    row(Scheduler, "run_recurring_invoices.committed", Story::Bill(Bill::Recurring)),
    row(Worker, "perform.claimed", Story::Sale(A)),
    row(Worker, "perform.claimed", Story::Sale(B)),
    unknown(PersonUnlessLate, "perform.claimed", Story::Sale(C)),
    row(Worker, "perform.claimed", Story::Capture),
    row(Worker, "perform.claimed", Story::Void),
    row(Worker, "perform.claimed", Story::Refund(A)),
    row(Worker, "perform.claimed", Story::Refund(B)),
    row(Worker, "perform.claimed", Story::Card),
    row(Worker, "perform.taken_over", Story::InDoubt(B)),
    row(Worker, "perform.taken_over", Story::Charged(B)),
    row(Worker, "perform.looked_up", Story::InDoubt(B)),
    row(Worker, "perform.looked_up", Story::Charged(B)),
    row(Worker, "perform.renewed", Story::InDoubt(A)),
    row(Worker, "perform.renewed", Story::InDoubt(B)),
    row(Worker, "perform.renewed", Story::RefundInDoubt(B)),
    row(Worker, "perform.answered_again", Story::InDoubt(B)),
    row(Worker, "perform.refused", Story::Refused),
    row(Worker, "perform.not_processed", Story::RefundAway(A)),
    row(Worker, "perform.not_processed", Story::RefundAway(B)),
    row(Worker, "perform.put_back", Story::RefundAway(A)),
    row(Worker, "perform.put_back", Story::RefundAway(C)),
    unknown(Person, "perform.learnt_nothing", Story::InDoubt(C)),
    unknown(Person, "perform.left_unknown", Story::RefundInDoubt(C)),
    row(Worker, "perform.answered", Story::Sale(A)),
    row(Worker, "perform.answered", Story::Sale(B)),
    unknown(PersonUnlessLate, "perform.answered", Story::Sale(C)),
    row(Worker, "perform.answered", Story::Capture),
    row(Worker, "perform.answered", Story::Refund(B)),
    row(Worker, "outcome.written", Story::Capture),
    row(Worker, "outcome.written", Story::Void),
    row(Worker, "outcome.written", Story::Refund(A)),
    row(Worker, "outcome.written", Story::Reversal),
    row(Worker, "outcome.written", Story::Card),
    row(Worker, "outcome.written_at_once", Story::Sale(A)),
    row(Worker, "outcome.written_the_long_way", Story::Refused),
    row(Worker, "outcome.challenged", Story::Challenge),
    row(Worker, "invoice_payment.written", Story::Bill(Bill::Page)),
    row(Worker, "invoice_payment.written_at_once", Story::Bill(Bill::Collection)),
    row(Worker, "reversal.begun", Story::Bill(Bill::Part)),
    row(Worker, "link_payment.written", Story::Bill(Bill::Link)),
    row(Worker, "inquire.answered", Story::Settlement),
    row(Worker, "inquire.written", Story::Settlement),
    row(Worker, "inquire.gave_part_back", Story::Bill(Bill::PartBack)),
    row(Worker, "reconcile.read", Story::Late),
    row(Worker, "outcome.written_late", Story::Late),
    row(Worker, "reconcile.recorded", Story::Late),
    row(Worker, "perform.recorded", Story::Sale(A)),
    row(Worker, "perform.recorded", Story::Refund(A)),
    row(Worker, "advance_clock.claimed", Story::Clock),
    row(Worker, "advance_clock.done", Story::Clock),
    row(Worker, "webhooks.claimed", Story::Webhook),
    row(Worker, "webhooks.attempted", Story::Webhook),
];

/// What stands between quotes after each `failpoint(` in these folders.
fn in_sources(folders: &[&str]) -> BTreeSet<String> {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder of ours can be read") {
            let path = entry.expect("its entries too").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source of ours");
                let mut names = text.split("failpoint(\"").skip(1).filter_map(|rest| rest.split('"').next());
                let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
                let module = if file == "mod" { folder } else { file };
                for name in names.by_ref() {
                    assert!(found.insert(name.to_owned()), "{name} stands in two places");
                    assert_eq!(name.split('.').next(), Some(module.as_str()), "{name} is in {}", path.display());
                }
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit lies in the repository");
    let mut found = BTreeSet::new();
    folders.iter().for_each(|folder| walk(&root.join(folder), &mut found));
    found
}

#[test]
fn every_point_of_the_sources_is_in_the_table_and_in_the_documentation() {
    let sources = in_sources(&["api/src", "common/src", "ctl/src", "queue/src", "scheduler/src", "worker/src"]);
    let table: BTreeSet<_> = TABLE.iter().map(|row| row.point.to_owned()).collect();
    assert_eq!(sources, table, "the points of the sources, and those of the table");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reliability.md");
    let docs = fs::read_to_string(docs).expect("docs/reliability.md");
    let missing: Vec<_> = table.iter().filter(|point| !docs.contains(&format!("`{point}`"))).collect();
    assert!(missing.is_empty(), "docs/reliability.md does not name {missing:?}");
}
