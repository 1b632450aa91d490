//! Every failpoint with the process that hits it, the scenario that leads there, and the expected end. A test compares
//! this table with the sources and the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use By::{Api, Scheduler, Worker};
use Class::{A, B, C};
use End::{Done, ManualReview, ManualReviewUnlessPaused};

/// The process that hits the failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Api,
    Worker,
    Scheduler,
}

/// The recovery class of the mock: how a lost response can be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    A,
    B,
    C,
}

/// What happens in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// A payment with a key.
    Sale(Class),
    /// A payment without a key.
    SaleWithoutKey,
    /// A payment whose worker died before the request reached the provider.
    Unsent(Class),
    /// A payment whose worker died after the provider had charged.
    Charged(Class),
    /// A payment that the provider does not process at first.
    Refused,
    /// The provider's statement has a charge of a failed payment.
    LateCharge,
    /// The reversal of such a charge.
    Reversal,
    /// A payment that requires a challenge, at the card gateway.
    Challenge,
    Capture,
    Void,
    Refund(Class),
    /// A refund whose worker died before the request reached the provider.
    RefundUnsent(Class),
    /// A refund that the provider does not process at first.
    RefundNotProcessed(Class),
    /// A card is saved.
    Card,
    /// An object is created with a key.
    Create(Create),
    /// A scenario of invoices, links or subscriptions.
    Bill(Bill),
    /// A charge has settled, and an inquiry finds it.
    Settlement,
    /// A test clock is advanced, and a charge settles during the advance.
    Clock,
    /// A payment's event is delivered to an endpoint.
    Webhook,
}

/// An object that is created with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    Customer,
    Address,
    Plan,
    Endpoint,
    Link,
}

/// A scenario of an invoice, a link or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bill {
    /// An invoice is paid on its page.
    Page,
    /// An invoice of a subscription is paid on its page with a card that is used for renewals.
    Renewals,
    /// An invoice is collected.
    Collection,
    /// A due invoice has a customer without a card.
    NoCard,
    /// An invoice is voided.
    VoidInvoice,
    /// A link is paid.
    Link,
    /// A link's payment is partially approved and therefore voided.
    PartialApproval,
    /// The same, and the provider refuses the void at first.
    PartialApprovalVoidRefused,
    /// An invoice is created through the API.
    NewInvoice,
    /// A link is created.
    NewLink,
    /// A recurring invoice is created.
    NewRecurring,
    /// A subscription is created, and its first cycle is billed.
    Subscription,
    /// A cycle of a subscription falls due.
    Cycle,
    /// A cycle of a recurring invoice falls due.
    Recurring,
}

/// The expected end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Done exactly once.
    Done,
    /// Unknown, and in manual review.
    ManualReview,
    /// The same, unless the process was only paused: its late outcome is recorded.
    ManualReviewUnlessPaused,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) point: &'static str,
    pub(super) by: By,
    pub(super) scenario: Scenario,
    pub(super) end: End,
}

const fn row(by: By, point: &'static str, scenario: Scenario) -> Row {
    Row { point, by, scenario, end: Done }
}

const fn unknown(end: End, point: &'static str, scenario: Scenario) -> Row {
    Row { point, by: Worker, scenario, end }
}

/// In the order in which an operation hits them. A process with several failpoints stops a scenario at the intended
/// one, because the counts of earlier ones are used up.
pub(super) const TABLE: &[Row] = &[
    row(Api, "take_payment.written", Scenario::Challenge),
    row(Api, "take_payment.committed", Scenario::Challenge),
    row(Api, "take_payment.written_in_batch", Scenario::Sale(A)),
    row(Api, "take_payment.written_in_batch", Scenario::SaleWithoutKey),
    row(Api, "change_payment.written", Scenario::Capture),
    row(Api, "change_payment.written", Scenario::Void),
    row(Api, "change_payment.written", Scenario::Refund(A)),
    row(Api, "change_payment.committed", Scenario::Capture),
    row(Api, "change_payment.committed", Scenario::Void),
    row(Api, "change_payment.committed", Scenario::Refund(A)),
    row(Api, "create.written", Scenario::Card),
    row(Api, "create.written", Scenario::Create(Create::Customer)),
    row(Api, "create.written", Scenario::Bill(Bill::Subscription)),
    row(Api, "create.written", Scenario::Bill(Bill::NewInvoice)),
    row(Api, "create.written", Scenario::Bill(Bill::NewLink)),
    row(Api, "create.written", Scenario::Bill(Bill::NewRecurring)),
    row(Api, "create.committed", Scenario::Card),
    row(Api, "create.committed", Scenario::Create(Create::Customer)),
    row(Api, "create.committed", Scenario::Create(Create::Address)),
    row(Api, "create.committed", Scenario::Create(Create::Plan)),
    row(Api, "create.committed", Scenario::Create(Create::Endpoint)),
    row(Api, "create.committed", Scenario::Bill(Bill::Subscription)),
    row(Api, "create.committed", Scenario::Bill(Bill::NewInvoice)),
    row(Api, "create.committed", Scenario::Create(Create::Link)),
    row(Api, "create.committed", Scenario::Bill(Bill::NewRecurring)),
    row(Api, "pay_page.written", Scenario::Bill(Bill::Page)),
    row(Api, "pay_page.written", Scenario::Bill(Bill::Link)),
    row(Api, "pay_page.committed", Scenario::Bill(Bill::Page)),
    row(Api, "pay_page.committed", Scenario::Bill(Bill::Link)),
    row(Api, "collect_invoices.written", Scenario::Bill(Bill::Collection)),
    row(Api, "collect_invoices.committed", Scenario::Bill(Bill::Collection)),
    row(Api, "collect_invoices.failed_without_card", Scenario::Bill(Bill::NoCard)),
    row(Api, "void_invoice.written", Scenario::Bill(Bill::VoidInvoice)),
    row(Scheduler, "schedule.claimed", Scenario::Unsent(A)),
    row(Scheduler, "schedule.claimed", Scenario::Charged(B)),
    row(Scheduler, "schedule.claimed", Scenario::Settlement),
    row(Scheduler, "schedule.claimed", Scenario::LateCharge),
    row(Scheduler, "schedule.claimed", Scenario::Clock),
    row(Scheduler, "schedule.claimed", Scenario::Webhook),
    row(Scheduler, "run_subscriptions.written", Scenario::Bill(Bill::Cycle)),
    row(Scheduler, "run_subscriptions.committed", Scenario::Bill(Bill::Cycle)),
    row(Scheduler, "run_recurring_invoices.written", Scenario::Bill(Bill::Recurring)),
    row(Scheduler, "run_recurring_invoices.committed", Scenario::Bill(Bill::Recurring)),
    row(Worker, "perform.claimed", Scenario::Sale(A)),
    row(Worker, "perform.claimed", Scenario::Sale(B)),
    unknown(ManualReviewUnlessPaused, "perform.claimed", Scenario::Sale(C)),
    row(Worker, "perform.claimed", Scenario::Capture),
    row(Worker, "perform.claimed", Scenario::Void),
    row(Worker, "perform.claimed", Scenario::Refund(A)),
    row(Worker, "perform.claimed", Scenario::Refund(B)),
    row(Worker, "perform.claimed", Scenario::Card),
    row(Worker, "perform.claimed", Scenario::Bill(Bill::Renewals)),
    row(Worker, "recover.looking_up", Scenario::Unsent(B)),
    row(Worker, "recover.looking_up", Scenario::Charged(B)),
    row(Worker, "recover.looked_up", Scenario::Unsent(B)),
    row(Worker, "recover.looked_up", Scenario::Charged(B)),
    row(Worker, "recover.resending", Scenario::Unsent(A)),
    row(Worker, "recover.resending", Scenario::Unsent(B)),
    row(Worker, "recover.resending", Scenario::RefundUnsent(B)),
    row(Worker, "recover.responded_again", Scenario::Unsent(B)),
    row(Worker, "perform.refused", Scenario::Refused),
    row(Worker, "perform.not_processed", Scenario::RefundNotProcessed(A)),
    row(Worker, "perform.not_processed", Scenario::RefundNotProcessed(B)),
    row(Worker, "perform.requeued", Scenario::RefundNotProcessed(A)),
    row(Worker, "perform.requeued", Scenario::RefundNotProcessed(C)),
    unknown(ManualReview, "perform.outcome_unknown", Scenario::Unsent(C)),
    unknown(ManualReview, "perform.left_unknown", Scenario::RefundUnsent(C)),
    row(Worker, "perform.responded", Scenario::Sale(A)),
    row(Worker, "perform.responded", Scenario::Sale(B)),
    unknown(ManualReviewUnlessPaused, "perform.responded", Scenario::Sale(C)),
    row(Worker, "perform.responded", Scenario::Capture),
    row(Worker, "perform.responded", Scenario::Refund(B)),
    row(Worker, "perform.responded", Scenario::Bill(Bill::Renewals)),
    row(Worker, "outcome.written", Scenario::Capture),
    row(Worker, "outcome.written", Scenario::Void),
    row(Worker, "outcome.written", Scenario::Refund(A)),
    row(Worker, "outcome.written", Scenario::Reversal),
    row(Worker, "outcome.written", Scenario::Card),
    row(Worker, "batches.outcome_written", Scenario::Sale(A)),
    row(Worker, "outcome.charge_written", Scenario::Refused),
    row(Worker, "outcome.challenged", Scenario::Challenge),
    row(Worker, "invoice_payment.written", Scenario::Bill(Bill::Page)),
    row(Worker, "batches.outcome_written", Scenario::Bill(Bill::Collection)),
    row(Worker, "reversal.begun", Scenario::Bill(Bill::PartialApproval)),
    row(Worker, "link_payment.written", Scenario::Bill(Bill::Link)),
    row(Worker, "inquire.responded", Scenario::Settlement),
    row(Worker, "inquire.written", Scenario::Settlement),
    row(Worker, "inquire.partial_returned", Scenario::Bill(Bill::PartialApprovalVoidRefused)),
    row(Worker, "reconcile.read", Scenario::LateCharge),
    row(Worker, "outcome.written_late", Scenario::LateCharge),
    row(Worker, "reconcile.recorded", Scenario::LateCharge),
    row(Worker, "perform.recorded", Scenario::Sale(A)),
    row(Worker, "perform.recorded", Scenario::Refund(A)),
    row(Worker, "advance_clock.claimed", Scenario::Clock),
    row(Worker, "advance_clock.done", Scenario::Clock),
    row(Worker, "webhooks.claimed", Scenario::Webhook),
    row(Worker, "webhooks.attempted", Scenario::Webhook),
];

/// The names of all `failpoint!("…")` calls in these folders.
fn source_failpoints(folders: &[&str]) -> BTreeSet<String> {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a readable source file");
                let mut names = text.split("failpoint!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
                let modules = [format!("{folder}_{file}"), folder, file];
                for name in names.by_ref() {
                    assert!(found.insert(name.to_owned()), "{name} is used in two places");
                    let module = name.split('.').next().unwrap_or_default();
                    assert!(modules.iter().any(|one| one == module), "{name} is in {}", path.display());
                }
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("testkit is in the repository");
    let mut found = BTreeSet::new();
    folders.iter().for_each(|folder| walk(&root.join(folder), &mut found));
    found
}

#[test]
fn every_failpoint_is_in_the_table_and_in_the_documentation() {
    let sources = source_failpoints(&["api/src", "common", "ctl/src", "queue/src", "scheduler/src", "worker/src"]);
    let table: BTreeSet<_> = TABLE.iter().map(|row| row.point.to_owned()).collect();
    assert_eq!(sources, table, "the failpoints of the sources and of the table differ");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reliability.md");
    let docs = fs::read_to_string(docs).expect("docs/reliability.md");
    let missing: Vec<_> = table.iter().filter(|point| !docs.contains(&format!("`{point}`"))).collect();
    assert!(missing.is_empty(), "docs/reliability.md lacks {missing:?}");
}
