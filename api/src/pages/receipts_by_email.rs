//! The page on which a customer stops receipts by e-mail, or has them sent again. Mail programs stop them by one POST,
//! whose response must not be a redirect (RFC 8058 §3.1).

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use domain::mails;
use engine::{PageAddress, PageKind, Payable};
use maud::html;

use super::error_page::ErrorPage;
use super::layout;
use super::reader::Reader;
use super::token::Token;
use crate::app::App;
use crate::error::ApiError;
use crate::html::{MERCHANT, with_merchant_text};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Stop,
    Resume,
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/pay/i/{token}/unsubscribe", change(Change::Stop))
        .route("/pay/i/{token}/subscribe", change(Change::Resume))
}

fn change(change: Change) -> MethodRouter<App> {
    let show = async |State(app): State<App>, Extension(reader): Extension<Reader>, Token(token): Token| {
        page(&app, reader, &token, None).await
    };
    let post = async move |State(app): State<App>, Extension(reader): Extension<Reader>, Token(token): Token| {
        page(&app, reader, &token, Some(change)).await
    };
    get(show).post(post).fallback(async || ErrorPage::from(ApiError::method_not_allowed()))
}

/// Makes the change, and shows what follows.
async fn page(app: &App, reader: Reader, token: &str, change: Option<Change>) -> Result<Response, ErrorPage> {
    let address = PageAddress { kind: PageKind::Invoice, token };
    let page = engine::open_page(&app.db, address, None, app.clock.now()).await?;
    let Payable::Invoice(invoice) = &page.payable else { return Err(ApiError::no_route("no such page").into()) };
    let (account, customer) = (invoice.account_id, invoice.customer_id);
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
            h1 { (title) }
            p { (with_merchant_text(&state, &page.payee.name)) }
        }
        section {
            form method="post" action={ (action) (reader.query(&[])) } { button type="submit" { (button) } }
        }
        (reader.languages())
    };
    Ok(layout::page_of(&page.payee, reader, StatusCode::OK, &title, &body, None))
}
