//! The content of an e-mail, as plain text and as HTML.

use std::iter;

use domain::accounts::{Mode, Payee};
use domain::invoices::{Failure, Invoice};
use domain::mails::{Content, Kind};
use domain::payments::Status;
use engine::{PageState, PayPage, Payable, PaymentReceipt};
use foundation::color::Color;
use foundation::money::Money;
use foundation::public_url;
use foundation::time::Timestamp;
use maud::{DOCTYPE, html};
use providers::DeclineCode;
use texts::{Language, Texts, brand_name, date, moment, price, seller};

use super::{Unsent, line};

/// The most room of the logo, in pixels: width and height.
const LOGO: (i32, i32) = (180, 48);
/// The color of buttons, if the merchant has chosen none.
const COLOR: Color = Color::new(0x0b, 0x57, 0xc4);

/// What an e-mail says, independent of its format.
pub(super) struct EmailContent {
    pub(super) subject: String,
    payee: String,
    /// The URL of its logo, and the width and height at which it is shown.
    logo: Option<(String, i32, i32)>,
    /// Shown first, if it is a test.
    notice: Option<String>,
    paragraphs: Vec<String>,
    /// What it is about: names and values.
    facts: Vec<(String, String)>,
    /// The page that it leads to, if there is one: its name and URL.
    page: Option<(String, String)>,
    /// The document of the page: its name and URL.
    document: Option<(String, String)>,
    /// The page that stops e-mails of this kind: its name and URL.
    pub(super) unsubscribe: Option<(String, String)>,
    /// Lines about the merchant, and its contact.
    footer: Vec<String>,
    /// The button's color.
    color: Color,
}

/// What an e-mail is about.
pub(super) enum EmailTopic {
    /// An invoice, by its page.
    Invoice(Box<PayPage>),
    /// A payment of no invoice.
    Payment(Box<PaymentReceipt>),
}

impl EmailTopic {
    pub(super) fn payee(&self) -> &Payee {
        match self {
            Self::Invoice(page) => &page.payee,
            Self::Payment(receipt) => &receipt.payee,
        }
    }
}

/// Writes the e-mail, unless it is out of date.
pub(super) fn write(
    kind: Kind,
    language: Language,
    topic: &EmailTopic,
    content: &Content,
) -> Result<EmailContent, Unsent> {
    if content.is_out_of_date {
        return Err(Unsent::OutOfDate("the event was long ago, or another has followed"));
    }
    match topic {
        EmailTopic::Invoice(page) => email_of_invoice(kind, language, page, content),
        EmailTopic::Payment(receipt) => receipt_of_payment(language, receipt),
    }
}

fn email_of_invoice(kind: Kind, language: Language, page: &PayPage, content: &Content) -> Result<EmailContent, Unsent> {
    let Payable::Invoice(invoice) = &page.payable else { return Err(Unsent::OutOfDate("it is about no invoice")) };
    let facts = Facts { texts: language.texts(), language, page, invoice };
    match kind {
        Kind::Invoice => facts.invoice_issued(content.has_card),
        Kind::Receipt => facts.invoice_paid(),
        Kind::CollectionFailed => facts.collection_failed(content),
    }
}

/// The receipt of a payment that has no page: the e-mail says everything.
fn receipt_of_payment(language: Language, receipt: &PaymentReceipt) -> Result<EmailContent, Unsent> {
    let (texts, PaymentReceipt { payee, payment, billed_to, page_token }) = (language.texts(), receipt);
    let Some(paid_at) = payment.captured_at.filter(|_| payment.status != Status::Cancelled) else {
        return Err(Unsent::OutOfDate("the payment was cancelled"));
    };
    let paid = price(language, Money { minor: payment.amount_captured, currency: payment.currency });
    let name = line(&payee.name);
    let card = payment.card_brand.as_deref().zip(payment.card_last4.as_deref());
    let facts = [
        Some((texts.total_paid(), paid.clone())),
        billed_to.as_ref().map(|customer| (texts.billed_to(), line(customer))),
        payment.description.as_ref().map(|description| (texts.paid_for(), line(description))),
        card.map(|(brand, last4)| (texts.card(), texts.card_ending(brand_name(brand), last4))),
        Some((texts.payment(), payment.id.to_string())),
    ];
    let stop = public_url::of(format_args!("/pay/c/{page_token}/unsubscribe?lang={}", language.code()));
    Ok(EmailContent {
        subject: texts.mail_receipt_subject(&paid, &name),
        paragraphs: vec![texts.mail_receipt_intro(&paid, &name, moment(language, &payee.timezone, paid_at))],
        facts: facts.into_iter().flatten().collect(),
        unsubscribe: Some((texts.receipts_stop(), stop)),
        ..of_payee(texts, payee)
    })
}

/// What all e-mails of a merchant have.
fn of_payee(texts: &Texts, payee: &Payee) -> EmailContent {
    let contact = payee.support_contact.as_ref();
    let contact = contact.map(|contact| format!("{} {}", texts.questions(), line(contact)));
    let seller = seller(texts, payee.address.as_deref(), payee.tax_number.as_deref());
    EmailContent {
        subject: String::new(),
        payee: line(&payee.name),
        logo: payee.logo.as_ref().map(|logo| {
            let (width, height) = logo.within(LOGO.0, LOGO.1);
            (public_url::of(format_args!("/{}", logo.path())), width, height)
        }),
        notice: (payee.mode == Mode::Test).then(|| texts.test_mode()),
        paragraphs: vec![],
        facts: vec![],
        page: None,
        document: None,
        unsubscribe: None,
        footer: contact.into_iter().chain(seller).collect(),
        color: payee.color.unwrap_or(COLOR).readable_on(Color::WHITE),
    }
}

struct Facts<'a> {
    texts: &'static Texts,
    language: Language,
    page: &'a PayPage,
    invoice: &'a Invoice,
}

impl Facts<'_> {
    fn invoice_issued(&self, has_card: bool) -> Result<EmailContent, Unsent> {
        let (texts, invoice) = (self.texts, self.invoice);
        if invoice.subscription_id.is_some() {
            return Err(Unsent::OutOfDate("the invoice of a subscription is charged to its card"));
        }
        self.require_owed()?;
        let collected = invoice.collect_at.filter(|at| has_card && *at > self.page.now);
        let next = match (collected, invoice.due_at) {
            (Some(at), _) => Some(texts.mail_invoice_collected(self.date(at))),
            (None, due) => due.map(|at| texts.mail_invoice_due(self.date(at))),
        };
        let intro = texts.mail_invoice_intro(self.payee(), self.owed());
        Ok(EmailContent {
            subject: texts.mail_invoice_subject(self.number(), self.payee()),
            paragraphs: iter::once(intro).chain(next).collect(),
            page: Some((texts.mail_invoice_open(), self.url(""))),
            document: Some((texts.mail_invoice_pdf(), self.url("/invoice.pdf"))),
            ..self.of_invoice()
        })
    }

    fn invoice_paid(&self) -> Result<EmailContent, Unsent> {
        let texts = self.texts;
        let (Some(payment), Some(paid_at)) = (&self.page.paid_by, self.invoice.paid_at) else {
            return Err(Unsent::OutOfDate("the invoice is not paid"));
        };
        let paid = self.price(Money { minor: payment.amount, currency: payment.currency });
        let paid_at = moment(self.language, &self.page.payee.timezone, paid_at);
        Ok(EmailContent {
            subject: texts.mail_receipt_subject(&paid, self.payee()),
            paragraphs: vec![texts.mail_receipt_intro(&paid, self.payee(), paid_at)],
            page: Some((texts.mail_receipt_open(), self.url(""))),
            document: Some((texts.mail_receipt_pdf(), self.url("/receipt.pdf"))),
            unsubscribe: Some((texts.receipts_stop(), self.url("/unsubscribe"))),
            ..self.of_invoice()
        })
    }

    fn collection_failed(&self, content: &Content) -> Result<EmailContent, Unsent> {
        let (texts, code) = (self.texts, content.decline_code.as_deref());
        self.require_owed()?;
        let no_card = code == Some(Failure::NO_CARD.code);
        if content.is_unsent && !no_card {
            return Err(Unsent::OutOfDate("the account's provider charges no such amount, or not in this currency"));
        }
        let intro = match no_card {
            true => texts.mail_failed_no_card(self.payee(), self.owed()),
            false => texts.mail_failed_intro(self.payee(), self.owed()),
        };
        let confirm = code == Some(DeclineCode::AuthenticationRequired.name());
        let next = match (self.page.state == PageState::Returning, self.invoice.next_attempt_at) {
            (true, _) => texts.mail_failed_returning(),
            (false, Some(at)) => texts.mail_failed_retry(self.date(at)),
            // A card that is saved will be charged.
            (false, None) if no_card => texts.mail_failed_no_card_next(),
            (false, None) => texts.mail_failed_last(),
        };
        let confirm = confirm.then(|| texts.mail_failed_confirm());
        Ok(EmailContent {
            subject: texts.mail_failed_subject(self.owed(), self.payee()),
            paragraphs: [Some(intro), confirm, Some(next)].into_iter().flatten().collect(),
            page: Some((texts.mail_failed_open(), self.url(""))),
            document: Some((texts.mail_invoice_pdf(), self.url("/invoice.pdf"))),
            ..self.of_invoice()
        })
    }

    /// What all e-mails about an invoice have.
    fn of_invoice(&self) -> EmailContent {
        let texts = self.texts;
        let description = self.invoice.description.as_ref();
        let facts = [
            Some((texts.invoice(), self.number())),
            self.page.billed_to.as_ref().map(|name| (texts.billed_to(), line(name))),
            description.map(|description| (texts.description(), line(description))),
        ];
        EmailContent { facts: facts.into_iter().flatten().collect(), ..of_payee(texts, &self.page.payee) }
    }

    fn require_owed(&self) -> Result<(), Unsent> {
        match self.page.state {
            PageState::Open | PageState::Returning | PageState::TooManyDeclined => Ok(()),
            PageState::UnderWay => Err(Unsent::NotYet("the invoice is being paid")),
            PageState::Paid | PageState::Voided | PageState::Cancelled | PageState::Expired => {
                Err(Unsent::OutOfDate("the invoice is no longer to be paid"))
            }
        }
    }

    fn payee(&self) -> String {
        line(&self.page.payee.name)
    }

    fn number(&self) -> String {
        self.invoice.number.map(|number| number.to_string()).unwrap_or_default()
    }

    fn owed(&self) -> String {
        self.price(self.page.payable.money())
    }

    fn price(&self, money: Money) -> String {
        price(self.language, money)
    }

    fn date(&self, at: Timestamp) -> String {
        date(self.language, &self.page.payee.timezone, at)
    }

    fn url(&self, document: &str) -> String {
        let (token, language) = (&self.invoice.page_token, self.language.code());
        public_url::of(format_args!("/pay/i/{token}{document}?lang={language}"))
    }
}

impl EmailContent {
    pub(super) fn text(&self, language: Language) -> String {
        let facts = self.facts.iter().map(|(name, value)| language.texts().mail_labelled(name, value));
        let link = |(name, url): &(String, String)| format!("{name}\n{url}");
        let links = self.page.iter().chain(&self.document).map(link);
        let parts = self.notice.iter().chain(&self.paragraphs).cloned();
        let parts = parts.chain([facts.collect::<Vec<_>>().join("\n")]).chain(links).chain([self.footer.join("\n")]);
        let parts = parts.chain(self.unsubscribe.as_ref().map(link));
        let text = parts.collect::<Vec<_>>().join("\n\n");
        format!("{}\n\n{text}\n", self.payee).replace('\n', "\r\n")
    }

    /// Styles are in the elements, because mail programs drop style sheets.
    pub(super) fn html(&self, language: Language) -> String {
        let color = self.color;
        let button = format!(
            "display:inline-block;padding:12px 20px;border-radius:6px;background:{color};color:{};text-decoration:none;font-weight:bold",
            color.text(),
        );
        html! {
            (DOCTYPE)
            html lang=(language.code()) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width";
                    title { (self.subject) }
                }
                body style="margin:0;padding:24px 12px;font-family:sans-serif;font-size:16px;line-height:1.5" {
                    div style="max-width:560px;margin:0 auto" {
                        @if let Some(notice) = &self.notice {
                            p style="padding:8px 12px;border:1px solid #8a6d00" { (notice) }
                        }
                        // The same URL for all recipients, so that it does not reveal who has opened the e-mail.
                        @if let Some((url, width, height)) = &self.logo {
                            img src=(url) width=(width) height=(height) alt=(self.payee)
                                style="display:block;max-width:100%;background:#fff";
                        }
                        p style="font-size:20px;font-weight:bold" dir="auto" { (self.payee) }
                        @for paragraph in &self.paragraphs { p { (paragraph) } }
                        table role="presentation" style="border-spacing:0;margin:16px 0" {
                            @for (name, value) in &self.facts {
                                tr {
                                    td style="padding:2px 16px 2px 0;vertical-align:top" { (name) }
                                    td style="padding:2px 0" { bdi { (value) } }
                                }
                            }
                        }
                        @if let Some((name, url)) = &self.page { p { a href=(url) style=(button) { (name) } } }
                        @if let Some((name, url)) = &self.document { p { a href=(url) { (name) } } }
                        p style="color:#545f72;font-size:14px" {
                            @for line in &self.footer { bdi { (line) } br; }
                            @if let Some((name, url)) = &self.unsubscribe { a href=(url) style="color:inherit" { (name) } }
                        }
                    }
                }
            }
        }
        .into_string()
    }
}
