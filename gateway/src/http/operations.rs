//! The operations that enter or change something: parse the fields in the order of the codes, run one command, respond.

use super::call::Call;
use super::card::{self, CardInputs};
use super::envelope::{Reply, SUCCESS, TransactionReply};
use super::fields::{self, CENT, Deferred, FieldGroups, Payer};
use crate::amount::Amount;
use crate::cards::funding::Source;
use crate::cards::{Cardholder, vault};
use crate::failure::{Code, Failure, Result};
use crate::id::TransactionId;
use crate::processing::change::Change;
use crate::processing::enter::ChargeResult;
use crate::transactions::{NewCharge, TransactionKind};
use crate::{proxy, wallet};

/// How the operations that take a card differ.
struct CardOperation {
    kind: TransactionKind,
    inputs: CardInputs,
    groups: FieldGroups,
    /// Whether `cvv` is required; `None` if the operation does not have the field.
    cvv_required: Option<bool>,
}

/// `sale.php`
pub(super) async fn sale(call: Call) -> Result<Reply> {
    let operation = CardOperation {
        kind: TransactionKind::Sale,
        inputs: CardInputs { token: true, encrypted: true },
        groups: FieldGroups { shipping: true, memo: true, custom: true },
        cvv_required: Some(call.account.cvv_required),
    };
    let (amounts, charged) = charge(&call, &operation).await?;
    Ok(Reply::new(&match charged {
        ChargeResult::Approved(id) => TransactionReply {
            total_amount: Some(amounts.total),
            convenience_fee: Some(amounts.fee),
            ..TransactionReply::new(id)
        },
        ChargeResult::Challenged(id, url) => challenged(id, url),
    }))
}

/// `authorize.php`
pub(super) async fn authorize(call: Call) -> Result<Reply> {
    let operation = CardOperation {
        kind: TransactionKind::Authorize,
        inputs: CardInputs { token: true, encrypted: false },
        groups: FieldGroups { shipping: true, memo: true, custom: false },
        cvv_required: Some(true),
    };
    Ok(Reply::new(&match charge(&call, &operation).await?.1 {
        ChargeResult::Approved(id) => TransactionReply::new(id),
        ChargeResult::Challenged(id, url) => challenged(id, url),
    }))
}

/// `unreference_refund.php`
pub(super) async fn credit(call: Call) -> Result<Reply> {
    let operation = CardOperation {
        kind: TransactionKind::Credit,
        inputs: CardInputs { token: false, encrypted: true },
        groups: FieldGroups { shipping: false, memo: false, custom: true },
        cvv_required: None,
    };
    let (amounts, charged) = charge(&call, &operation).await?;
    let (ChargeResult::Approved(id) | ChargeResult::Challenged(id, _)) = charged;
    Ok(Reply::new(&TransactionReply { amount: Some(amounts.total), ..TransactionReply::new(id) }))
}

fn challenged(id: TransactionId, url: String) -> TransactionReply {
    TransactionReply {
        description: "Pending cardholder authentication",
        redirect_url: Some(url),
        ..TransactionReply::new(id)
    }
}

/// The charged total and the fee included in it.
struct Amounts {
    total: Amount,
    fee: Amount,
}

impl Amounts {
    fn of(new: &NewCharge) -> Self {
        Self { total: new.total(), fee: new.fee }
    }
}

/// A refusal may be caused by a concurrent copy of the same request, which has used the token or reached the limit. So
/// check the reference again before responding with a code other than 26.
async fn charge(call: &Call, operation: &CardOperation) -> Result<(Amounts, ChargeResult)> {
    let charged = charge_once(call, operation).await;
    if let Err(Failure::Refused(code, _)) = &charged
        && !matches!(code, Code::Declined | Code::Duplicate)
    {
        unused_reference(call).await?;
    }
    charged
}

async fn charge_once(call: &Call, operation: &CardOperation) -> Result<(Amounts, ChargeResult)> {
    let Call { app, account, form, deadline } = call;
    let reference_id = unused_reference(call).await?;
    let today = account.time_zone.date_at(app.clock.now());
    let mut funding = card::funding(call, operation.inputs, today).await?;
    let payer = Payer::from_form(form, &funding.holder)?;
    let amount = fields::amount(form, CENT)?;
    let currency = fields::currency(account, form.get("currency"))?;
    fields::check_brand(account, funding.masked_card.brand)?;
    let reference_id = reference_id.check()?;
    card::is_encrypted(form, operation.inputs)?;
    // With a token no code is needed: a field token brings its own, and a stored card has none.
    let by_token = funding.source != Source::Api;
    if let Some(required) = operation.cvv_required {
        let code = card::security_code(form, required && !by_token)?;
        funding.security_code = code.or(funding.security_code);
    }
    let return_url = fields::return_url(form)?;
    let (details, receipts) = fields::details(form, payer, &funding.holder, operation.groups)?;
    let client_ip = form.client_ip()?;
    let new = NewCharge {
        kind: operation.kind,
        funding,
        amount,
        fee: if operation.kind == TransactionKind::Sale { account.fee().of(amount) } else { Amount::ZERO },
        currency,
        reference_id,
        client_ip,
        return_url,
        wallet_token: None,
        receipts,
        details,
    };
    Ok((Amounts::of(&new), app.processor.charge(account, new, *deadline).await?))
}

/// 26 if the reference was used before. An invalid reference is A1.
async fn unused_reference(call: &Call) -> Result<Deferred<Option<String>>> {
    let reference_id = call.form.text("reference_id");
    if let Ok(Some(reference)) = &reference_id {
        call.app.processor.check_reference(call.account.id, reference).await?;
    }
    Ok(Deferred(reference_id))
}

/// `wallet_sale.php`
pub(super) async fn wallet_sale(call: Call) -> Result<Reply> {
    let Call { app, account, form, deadline } = &call;
    let reference_id = unused_reference(&call).await?;
    let payer = Payer::from_form(form, &Cardholder::default())?;
    let reference_id = reference_id.check()?;
    let token = form.get("signature_token").ok_or_else(|| Failure::field("signature_token", "is missing"))?;
    let groups = FieldGroups { shipping: false, memo: true, custom: true };
    let (details, receipts) = fields::details(form, payer, &Cardholder::default(), groups)?;
    let client_ip = form.client_ip()?;
    let opened = wallet::open(&app.crypto, account, token, app.clock.now())?;
    let currency = fields::currency(account, Some(&opened.currency))?;
    fields::check_brand(account, opened.funding.masked_card.brand)?;
    let new = NewCharge {
        kind: TransactionKind::Sale,
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
    let (ChargeResult::Approved(id) | ChargeResult::Challenged(id, _)) =
        app.processor.charge(account, new, *deadline).await?;
    // The contract has no fee here, so the field is sent only if there is one.
    let fee = (fee > Amount::ZERO).then_some(fee);
    Ok(Reply::new(&TransactionReply { total_amount: Some(total), convenience_fee: fee, ..TransactionReply::new(id) }))
}

/// `capture.php`, `void.php` and `refund.php`
pub(super) async fn change(call: Call, kind: TransactionKind) -> Result<Reply> {
    let Call { app, account, form, deadline } = &call;
    let reference_id = form.text("reference_id");
    if let Ok(Some(reference)) = &reference_id {
        app.processor.check_change_reference(account.id, reference).await?;
    }
    let target = form.get("transaction_id").and_then(|text| text.parse::<TransactionId>().ok());
    let target = target.ok_or(Code::TransactionId.refuse())?;
    let amount = if kind == TransactionKind::Void { None } else { Some(fields::amount(form, CENT)?) };
    let reference_id = reference_id?;
    let receipt = form.flag("email_receipt")?;
    let change = Change { kind, target, amount, reference_id, receipt };
    let id = app.processor.change(account.id, &change, *deadline).await?;
    Ok(Reply::new(&TransactionReply::new(id)))
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

/// `add_card.php`: stores a card in the vault. A card field's token is exchanged for a vault token, and a repeated
/// request gets the same one.
pub(super) async fn add_card(call: Call) -> Result<Reply> {
    let token = call.form.get("card_token").filter(|token| token.starts_with(vault::FIELD_PREFIX));
    if let Some(stored) = find_stored(&call, token).await? {
        return Ok(stored);
    }
    match store_card(&call, token.is_some()).await {
        Ok(stored) => Ok(stored_reply(stored)),
        // A concurrent request with the same token may have stored the card.
        Err(refusal) => match find_stored(&call, token).await {
            Ok(stored) => stored.ok_or(refusal),
            // This request may have stored it, too, and a failed look-up does not change that.
            Err(_) if matches!(refusal, Failure::Unknown) => Err(refusal),
            Err(failure) => Err(failure),
        },
    }
}

async fn store_card(call: &Call, by_token: bool) -> Result<vault::StoredCard> {
    let Call { app, account, form, deadline } = call;
    let now = app.clock.now();
    let inputs = CardInputs { token: by_token, encrypted: true };
    let funding = card::funding(call, inputs, account.time_zone.date_at(now)).await?;
    card::is_encrypted(form, inputs)?;
    let card_holder = &funding.holder;
    let holder = Cardholder {
        first_name: form.text("first_name")?.or_else(|| card_holder.first_name.clone()),
        last_name: form.text("last_name")?.or_else(|| card_holder.last_name.clone()),
        zip_code: form.text("zip_code")?.or_else(|| card_holder.zip_code.clone()),
        country_code: fields::country(form)?.or_else(|| card_holder.country_code.clone()),
    };
    let _permit = app.processor.connections.acquire(account.id).await?;
    deadline.check()?;
    let stored = vault::store(&app.db, &app.crypto.card_keys, account.id, &funding, &holder, now).await?;
    if let Some(proxy) = &funding.proxy {
        proxy::bind(&app.db, account.id, proxy).await;
    }
    Ok(stored)
}

async fn find_stored(call: &Call, token: Option<&str>) -> Result<Option<Reply>> {
    let Some(token) = token else { return Ok(None) };
    let app = &call.app;
    let stored = vault::find_stored(&app.db, &app.crypto.card_keys, call.account.id, token).await?;
    Ok(stored.map(stored_reply))
}

fn stored_reply(stored: vault::StoredCard) -> Reply {
    Reply::new(&Stored {
        code: "00",
        description: SUCCESS,
        card_token: stored.token,
        card_type: stored.masked_card.brand.name(),
        credit_card_number: stored.masked_card.masked,
        card_expiry_date: stored.masked_card.expiry.to_string(),
    })
}
