//! The operations that enter or change something: parse in the order of the codes, one command, answer.

use super::envelope::{Done, SUCCESS};
use super::fields::{self, Has, Payer};
use super::{Call, Reply};
use crate::amount::Amount;
use crate::cards::source::{self, Ways, security_code};
use crate::cards::{Holder, vault};
use crate::failure::{Code, Failure, Result};
use crate::id::TransactionId;
use crate::transactions::change::{self, Change};
use crate::transactions::enter::{self, Charged};
use crate::transactions::{Kind, NewCharge};
use crate::{proxy, tokens, wallet};

/// The smallest amount that can be charged.
const CENT: Amount = Amount::hundredths(1);

/// What distinguishes the operations that take a card.
struct Matrix {
    kind: Kind,
    ways: Ways,
    has: Has,
    /// Whether the security code is required; none where it is no part of the operation.
    code_required: Option<bool>,
}

/// `sale.php`
pub(super) async fn sale(call: Call) -> Result<Reply> {
    let matrix = Matrix {
        kind: Kind::Sale,
        ways: Ways { token: true, encrypted: true },
        has: Has { shipping: true, memo: true, custom: true },
        code_required: Some(call.account.cvv_required),
    };
    let (amounts, charged) = charge(&call, &matrix).await?;
    Ok(Reply::new(&match charged {
        Charged::Approved(id) => {
            Done { total_amount: Some(amounts.total), convenience_fee: Some(amounts.fee), ..Done::new(id) }
        }
        Charged::Challenged(id, url) => challenged(id, url),
    }))
}

/// `authorize.php`
pub(super) async fn authorize(call: Call) -> Result<Reply> {
    let matrix = Matrix {
        kind: Kind::Authorize,
        ways: Ways { token: true, encrypted: false },
        has: Has { shipping: true, memo: true, custom: false },
        code_required: Some(true),
    };
    Ok(Reply::new(&match charge(&call, &matrix).await?.1 {
        Charged::Approved(id) => Done::new(id),
        Charged::Challenged(id, url) => challenged(id, url),
    }))
}

/// `unreference_refund.php`
pub(super) async fn credit(call: Call) -> Result<Reply> {
    let matrix = Matrix {
        kind: Kind::Credit,
        ways: Ways { token: false, encrypted: true },
        has: Has { shipping: false, memo: false, custom: true },
        code_required: None,
    };
    let (amounts, charged) = charge(&call, &matrix).await?;
    let (Charged::Approved(id) | Charged::Challenged(id, _)) = charged;
    Ok(Reply::new(&Done { amount: Some(amounts.total), ..Done::new(id) }))
}

fn challenged(id: TransactionId, url: String) -> Done {
    Done { description: "Pending cardholder authentication", redirect_url: Some(url), ..Done::new(id) }
}

/// What was charged, and what of it is the fee.
struct Amounts {
    total: Amount,
    fee: Amount,
}

impl Amounts {
    fn of(new: &NewCharge) -> Self {
        Self { total: new.total(), fee: new.fee }
    }
}

/// A refusal may be the doing of the same request that came twice and was faster the other time: its token is used now, or a limit
/// is reached. So the reference is asked for once more before another code than 26 is told.
async fn charge(call: &Call, matrix: &Matrix) -> Result<(Amounts, Charged)> {
    let charged = charge_once(call, matrix).await;
    if let Err(Failure::Refused(code, _)) = &charged
        && !matches!(code, Code::Declined | Code::Duplicate)
    {
        unused_reference(call).await?.ok();
    }
    charged
}

async fn charge_once(call: &Call, matrix: &Matrix) -> Result<(Amounts, Charged)> {
    let Call { app, account, form, lifetime } = call;
    let reference_id = unused_reference(call).await?;
    let today = account.time_zone.date_at(app.clock.now());
    let mut funding = source::of_form(app, account, form, matrix.ways, today).await?;
    let payer = Payer::of_form(form, &funding.holder)?;
    let amount = fields::amount(form, CENT)?;
    let currency = fields::currency(account, form.get("currency"))?;
    fields::routable(account, funding.face.brand)?;
    let reference_id = reference_id?;
    source::encrypted(form, matrix.ways)?;
    // A token stands for a card whose code was asked once, or comes with it.
    let by_token = funding.source != source::Source::Api;
    if let Some(required) = matrix.code_required {
        let code = security_code(form, required && !by_token)?;
        funding.security_code = code.or(funding.security_code);
    }
    let return_url = fields::return_url(form)?;
    let (details, receipts) = fields::details(form, payer, &funding.holder, matrix.has)?;
    let client_ip = form.client_ip()?;
    let new = NewCharge {
        kind: matrix.kind,
        funding,
        amount,
        fee: if matrix.kind == Kind::Sale { account.fee().of(amount) } else { Amount::ZERO },
        currency,
        reference_id,
        client_ip,
        return_url,
        wallet_token: None,
        receipts,
        details,
    };
    Ok((Amounts::of(&new), enter::charge(app, account, new, *lifetime).await?))
}

/// The caller's name for it, which was not used before: 26. One that cannot be used is A1, for when that has its turn.
async fn unused_reference(call: &Call) -> Result<Result<Option<String>>> {
    let reference_id = fields::reference_id(&call.form);
    if let Ok(Some(reference)) = &reference_id {
        enter::check_reference(&call.app, &call.account, reference).await?;
    }
    Ok(reference_id)
}

/// `wallet_sale.php`
pub(super) async fn wallet_sale(call: Call) -> Result<Reply> {
    let Call { app, account, form, lifetime } = &call;
    let reference_id = unused_reference(&call).await?;
    let payer = Payer::of_form(form, &Holder::default())?;
    let reference_id = reference_id?;
    let token = form.get("signature_token").ok_or_else(|| Failure::field("signature_token", "is missing"))?;
    let has = Has { shipping: false, memo: true, custom: true };
    let (details, receipts) = fields::details(form, payer, &Holder::default(), has)?;
    let client_ip = form.client_ip()?;
    let opened = wallet::open(app, account, token)?;
    let currency = fields::currency(account, Some(&opened.currency))?;
    fields::routable(account, opened.funding.face.brand)?;
    let new = NewCharge {
        kind: Kind::Sale,
        funding: opened.funding,
        amount: opened.amount,
        fee: account.fee().of(opened.amount),
        currency,
        reference_id,
        client_ip,
        return_url: None,
        wallet_token: Some(opened.id),
        receipts,
        details,
    };
    let Amounts { total, fee } = Amounts::of(&new);
    let (Charged::Approved(id) | Charged::Challenged(id, _)) = enter::charge(app, account, new, *lifetime).await?;
    // The contract has no fee here, so it is told only where there is one.
    let fee = (fee > Amount::ZERO).then_some(fee);
    Ok(Reply::new(&Done { total_amount: Some(total), convenience_fee: fee, ..Done::new(id) }))
}

/// `capture.php`
pub(super) async fn capture(call: Call) -> Result<Reply> {
    follow(&call, Kind::Capture).await
}

/// `void.php`
pub(super) async fn void(call: Call) -> Result<Reply> {
    follow(&call, Kind::Void).await
}

/// `refund.php`
pub(super) async fn refund(call: Call) -> Result<Reply> {
    follow(&call, Kind::Refund).await
}

async fn follow(call: &Call, kind: Kind) -> Result<Reply> {
    let Call { app, account, form, lifetime } = call;
    let reference_id = fields::reference_id(form);
    if let Ok(Some(reference)) = &reference_id {
        change::check_reference(app, account, reference).await?;
    }
    let of = form.get("transaction_id").and_then(|text| text.parse::<TransactionId>().ok());
    let of = of.ok_or(Code::TransactionId.refuse())?;
    let amount = if kind == Kind::Void { None } else { Some(fields::amount(form, CENT)?) };
    let reference_id = reference_id?;
    let receipt = form.yes("email_receipt")?;
    let change = Change { kind, of, amount, reference_id, receipt };
    let id = change::change(app, account, &change, *lifetime).await?;
    Ok(Reply::new(&Done::new(id)))
}

#[derive(serde::Serialize)]
struct Stored {
    code: &'static str,
    description: &'static str,
    card_token: String,
    card_type: &'static str,
    credit_card_number: String,
    card_expiry_date: String,
}

/// `add_card.php`: a card into the vault. A capture field's token is changed for one of the vault, and asked again gives the
/// same one.
pub(super) async fn add_card(call: Call) -> Result<Reply> {
    let token = call.form.get("card_token").filter(|token| token.starts_with(vault::FIELD_PREFIX));
    if let Some(stored) = stored_before(&call, token).await? {
        return Ok(stored);
    }
    match store_card(&call, token.is_some()).await {
        Ok(stored) => Ok(stored_reply(stored)),
        // Another request with the same token may have been first, and has the answer.
        Err(refusal) => stored_before(&call, token).await?.ok_or(refusal),
    }
}

async fn store_card(call: &Call, by_token: bool) -> Result<vault::Stored> {
    let Call { app, account, form, lifetime } = call;
    let now = app.clock.now();
    let ways = Ways { token: by_token, encrypted: true };
    let funding = source::of_form(app, account, form, ways, account.time_zone.date_at(now)).await?;
    source::encrypted(form, ways)?;
    let known = &funding.holder;
    let holder = Holder {
        first_name: form.text("first_name")?.or_else(|| known.first_name.clone()),
        last_name: form.text("last_name")?.or_else(|| known.last_name.clone()),
        zip_code: form.text("zip_code")?.or_else(|| known.zip_code.clone()),
        country_code: tokens::country(form)?.or_else(|| known.country_code.clone()),
    };
    lifetime.check()?;
    let stored = vault::store(&app.db, &app.vaulting.card_keys, account.id, &funding, &holder, now).await?;
    if let Some(proxy) = &funding.proxy {
        proxy::bind(&app.db, account.id, proxy).await;
    }
    Ok(stored)
}

async fn stored_before(call: &Call, token: Option<&str>) -> Result<Option<Reply>> {
    let Some(token) = token else { return Ok(None) };
    let app = &call.app;
    let stored = vault::stored_before(&app.db, &app.vaulting.card_keys, call.account.id, token).await?;
    Ok(stored.map(stored_reply))
}

fn stored_reply(stored: vault::Stored) -> Reply {
    Reply::new(&Stored {
        code: "00",
        description: SUCCESS,
        card_token: stored.token,
        card_type: stored.face.brand.name(),
        credit_card_number: stored.face.masked,
        card_expiry_date: stored.face.expiry.to_string(),
    })
}
