//! The page on which a customer stops receipts by e-mail, or has them sent again. Mail programs stop them by one POST,
//! whose response must not be a redirect (RFC 8058 §3.1).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use domain::accounts::Payee;
use domain::mails;
use engine::{PageAddress, PageKind, Payable};
use foundation::id::CustomerId;
use maud::html;

use super::error_page::ErrorPage;
use super::layout;
use super::reader::Reader;
use super::receipt::{contact, logo};
use super::token::Token;
use crate::app::App;
use crate::error::ApiError;
use crate::html::{MERCHANT, with_merchant_text};

/// Whose token the URL has.
#[derive(Clone, Copy)]
enum Of {
    /// The customer's invoice.
    Invoice,
    /// The customer, in receipts of payments of no invoice.
    Customer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Stop,
    Resume,
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/pay/i/{token}/unsubscribe", change(Of::Invoice, Change::Stop))
        .route("/pay/i/{token}/subscribe", change(Of::Invoice, Change::Resume))
        .route("/pay/c/{token}/unsubscribe", change(Of::Customer, Change::Stop))
        .route("/pay/c/{token}/subscribe", change(Of::Customer, Change::Resume))
}

fn change(of: Of, change: Change) -> MethodRouter<App> {
    let show = async move |State(app): State<App>, Extension(reader): Extension<Reader>, Token(token): Token| {
        page(&app, reader, (of, &token), None).await
    };
    let post = async move |State(app): State<App>, Extension(reader): Extension<Reader>, Token(token): Token| {
        page(&app, reader, (of, &token), Some(change)).await
    };
    get(show).post(post).fallback(async || ErrorPage::from(ApiError::method_not_allowed()))
}

/// The customer, and the merchant.
async fn find(app: &App, (of, token): (Of, &str)) -> Result<(Payee, CustomerId), ErrorPage> {
    match of {
        Of::Invoice => {
            let address = PageAddress { kind: PageKind::Invoice, token };
            let page = engine::open_page(&app.db, address, None, app.clock.now()).await?;
            match page.payable {
                Payable::Invoice(invoice) => Ok((page.payee, invoice.customer_id)),
                Payable::Link(_) => Err(ApiError::no_route("no such page").into()),
            }
        }
        Of::Customer => Ok(engine::customer_page(&app.db, token).await?),
    }
}

/// Makes the change, and shows what follows.
async fn page(app: &App, reader: Reader, address: (Of, &str), change: Option<Change>) -> Result<Response, ErrorPage> {
    let (payee, customer) = find(app, address).await?;
    let account = payee.account_id;
    match change {
        Some(Change::Stop) => mails::stop_receipts(&app.db, account, customer).await?,
        Some(Change::Resume) => mails::resume_receipts(&app.db, account, customer).await?,
        None => {}
    }
    let texts = reader.texts();
    let (state, action, button) = match mails::wants_receipts(&app.db, account, customer).await? {
        true => (texts.receipts_on(MERCHANT), "unsubscribe", texts.receipts_stop()),
        false => (texts.receipts_off(MERCHANT), "subscribe", texts.receipts_resume()),
    };
    let title = texts.receipts_title();
    let body = html! {
        section role="status" {
            (logo(&payee, "../../../"))
            h1 { (title) }
            p { (with_merchant_text(&state, &payee.name)) }
        }
        section {
            form method="post" action={ (action) (reader.query(&[])) } { button type="submit" { (button) } }
        }
        (contact(reader, &payee))
        (reader.languages())
    };
    Ok(layout::page_of(&payee, reader, StatusCode::OK, &title, &body, None))
}
