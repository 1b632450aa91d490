//! The outcomes of saving cards.

use super::record_charge;
use super::stale::{Recorded, no_outcome, unexpected_response};
use crate::charge::intent::save_card::make_default;
use crate::charge::renewal_card;
use domain::accounts::Mode;
use domain::charges::{self, Claimed};
use domain::customers;
use domain::events::{self, EventType};
use domain::idempotency;
use domain::operations::Subject;
use domain::payment_methods::{self, PaymentMethod, PaymentMethodView};
use domain::payments;
use foundation::clock::Clock;
use foundation::db::Tx;
use foundation::error::Result;
use foundation::id::PaymentId;
use providers::ProviderResponse;

/// Records that the provider has saved a card, or has refused to.
pub(super) async fn record_stored_card(
    tx: &mut Tx,
    claimed: &Claimed,
    saved: &PaymentMethod,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<Recorded> {
    let id = saved.id;
    let customer = customers::lock(tx, claimed.account_id, saved.customer_id).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        return Ok(recorded);
    }
    let written = Recorded::written(&operation);
    charges::finish(tx, claimed.id, response).await?;
    let ProviderResponse::Stored { provider_ref, card } = response else {
        payment_methods::finish_saving(tx, id, None).await?;
        idempotency::finish_saving(tx, claimed.account_id, id, None::<&PaymentMethodView<'_>>).await?;
        return Ok(written);
    };
    payment_methods::finish_saving(tx, id, Some((provider_ref, card))).await?;
    let now = claimed.time.now(&mut **tx, clock).await?;
    if customer.default_payment_method_id.is_none() {
        make_default(tx, &customer, claimed.account_id, id, now).await?;
    }
    let saved = payment_methods::retrieve(tx, claimed.account_id, id).await?;
    let livemode = saved.mode == Mode::Live;
    let view = PaymentMethodView::new(&saved);
    events::append(tx, claimed.account_id, livemode, EventType::PaymentMethodCreated, &view, now).await?;
    idempotency::finish_saving(tx, claimed.account_id, id, Some(&view)).await?;
    Ok(written)
}

/// Records that the provider has saved the card of a payment, which is charged to it now, or has refused to, which ends
/// the payment likewise.
pub(super) async fn record_card_of_payment(
    tx: &mut Tx,
    claimed: &Claimed,
    card: &PaymentMethod,
    payment: PaymentId,
    response: &ProviderResponse,
    clock: &Clock,
) -> Result<(Recorded, Subject)> {
    let ProviderResponse::Stored { provider_ref, card: details } = response else {
        let now = claimed.time.now(&mut **tx, clock).await?;
        let payment = payments::find(&mut **tx, claimed.account_id, payment).await?;
        let payment = payment.ok_or_else(|| unexpected_response(claimed, "card of an unknown payment"))?;
        let recorded = record_charge(tx, claimed, &payment, response, now).await?;
        return Ok((recorded, Subject::Payment(payment.id)));
    };
    let payment = payments::lock(tx, claimed.account_id, payment).await?;
    let operation = charges::lock(tx, claimed.id).await?;
    if let Some(recorded) = no_outcome(claimed, &operation, response) {
        return Ok((recorded, claimed.subject));
    }
    charges::finish(tx, claimed.id, response).await?;
    renewal_card::charge(tx, claimed, &payment, card, provider_ref, details).await?;
    Ok((Recorded::written(&operation), claimed.subject))
}
