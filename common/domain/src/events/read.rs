//! Events as the merchant reads them.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::{PgConnection, PgPool};
use utoipa::ToSchema;
use utoipa::openapi::{Object, ObjectBuilder, Type};

use super::EventType;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::filter::{FilterValue, ObjectId, Reference, Seconds};
use foundation::id::{AccountId, EventId};
use foundation::page::{Page, PageRequest, each, newest_first};
use foundation::schema;
use foundation::time::Timestamp;

/// How far the time that an event shows may be from that of its id, unless the account has a test clock.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

impl FilterValue for EventType {
    fn expected() -> Cow<'static, str> {
        "an event type, such as payment.captured".into()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text)
    }

    fn schema() -> Object {
        schema::enumeration(Self::ALL.iter().map(|kind| kind.name()))
    }
}

foundation::filters! {
    /// Filters of the list of events.
    pub struct Filter {
        /// Only events of one of these types.
        kinds("type"): Vec<EventType>,
        /// Only events about this object.
        object_id("objectId"): Option<ObjectId>,
        /// Only events of this time or later.
        created_from("createdFrom"): Option<Timestamp>,
        /// Only events before this time.
        created_to("createdTo"): Option<Timestamp>,
        /// The events that follow this one, oldest first. To follow all events, send the id of the last one each time.
        after("after"): Option<Reference<EventId>>,
        /// With `after`: how many seconds to wait for an event if there is none.
        wait("wait"): Option<Seconds<25>>,
    }
    ranges { created_from..created_to, }
}

/// An event in the API.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Event, description = "Something that happened: the fields of its webhook.")]
pub struct EventView {
    pub id: EventId,
    #[schema(schema_with = schema::event)]
    object: &'static str,
    livemode: bool,
    /// The same as `timestamp`.
    #[schema(value_type = Timestamp)]
    created_at: String,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(value_type = EventType)]
    kind: String,
    /// When it happened, by the account's clock.
    #[schema(value_type = Timestamp)]
    timestamp: String,
    /// `object` is the object as it was then.
    #[schema(value_type = EventData)]
    data: Box<RawValue>,
}

/// The stored bytes of a webhook.
#[derive(Deserialize)]
struct Payload {
    livemode: bool,
    #[serde(rename = "type")]
    kind: String,
    timestamp: String,
    data: Box<RawValue>,
}

schema::schema_is!(EventType, <Self as FilterValue>::schema());
schema::field_types! { EventData = ObjectBuilder::new().schema_type(Type::Object).build(); }

/// An event as stored.
struct Row {
    id: EventId,
    payload: String,
}

impl Row {
    fn view(self) -> Result<EventView> {
        let Payload { livemode, kind, timestamp, data } = serde_json::from_str(&self.payload)
            .map_err(|error| Error::internal(format!("the payload of {}: {error}", self.id)))?;
        Ok(EventView { id: self.id, object: "event", livemode, created_at: timestamp.clone(), kind, timestamp, data })
    }
}

/// Returns an event.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account or is past its retention period.
pub async fn retrieve(db: &PgPool, account: AccountId, id: EventId) -> Result<EventView> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("event", id))?.0.view()
}

/// Returns an event with its place in the order of all.
async fn find(db: &PgPool, account: AccountId, id: EventId) -> Result<Option<(Row, i64)>> {
    let query = sqlx::query!(
        r#"SELECT id AS "id: EventId", payload, coalesce(xact, 0) AS "xact!" FROM events WHERE account_id = $1 AND id = $2"#,
        account.uuid(),
        id.uuid(),
    );
    Ok(query.fetch_optional(db).await?.map(|row| (Row { id: row.id, payload: row.payload }, row.xact)))
}

/// Returns a page of events, newest first. `has_clock` is whether the account has a test clock.
///
/// # Errors
/// 422 if the cursor is not an event of the account.
pub async fn list(
    db: &PgPool,
    account: AccountId,
    has_clock: bool,
    filter: &Filter,
    page: PageRequest<EventId>,
) -> Result<Page<EventView>> {
    page.check_cursor(|cursor| find(db, account, cursor)).await?;
    let mut snapshot = db::filtered_snapshot(db).await?;
    let mut rows = Vec::new();
    for kind in each(&filter.kinds) {
        rows.extend(filtered(&mut snapshot, account, has_clock, filter, kind, page).await?);
    }
    snapshot.rollback().await?;
    views(page.page(newest_first(rows, |row| row.id.uuid())))
}

fn views(page: Page<Row>) -> Result<Page<EventView>> {
    let Page { data, has_more } = page;
    Ok(Page { data: data.into_iter().map(Row::view).collect::<Result<_>>()?, has_more })
}

async fn filtered(
    db: &mut PgConnection,
    account: AccountId,
    has_clock: bool,
    filter: &Filter,
    kind: Option<EventType>,
    page: PageRequest<EventId>,
) -> Result<Vec<Row>> {
    // Times are compared as shown. That the ids are in nearly the same order limits what is read.
    let near = |at: Option<Timestamp>| at.filter(|_| !has_clock);
    let (from, below) = page.ids(
        near(filter.created_from).map(|at| at.minus(CLOCK_DIFFERENCE)),
        near(filter.created_to).map(|at| at.plus(CLOCK_DIFFERENCE)),
    );
    let query = sqlx::query_as!(
        Row,
        r#"SELECT id AS "id: EventId", payload FROM events
           WHERE account_id = $1 AND id >= $2 AND id < $3
             AND ($4::text IS NULL OR type = $4)
             AND ($5::text IS NULL OR event_object_id(payload) = $5)
             AND ($6::text IS NULL OR event_timestamp(payload) >= $6)
             AND ($7::text IS NULL OR event_timestamp(payload) < $7)
           ORDER BY account_id DESC, id DESC LIMIT $8"#,
        account.uuid(),
        from,
        below,
        kind.map(EventType::name),
        filter.object_id.as_ref().map(|id| id.0.as_str()),
        filter.created_from.map(|at| at.to_string()),
        filter.created_to.map(|at| at.to_string()),
        page.fetch(),
    );
    Ok(query.fetch_all(db).await?)
}

/// The events after another one, oldest first.
#[derive(Debug)]
pub struct Following {
    account: AccountId,
    xact: i64,
    id: EventId,
}

impl Following {
    /// # Errors
    /// 422 if `after` is not an event of the account.
    pub async fn after(db: &PgPool, account: AccountId, after: &Reference<EventId>) -> Result<Self> {
        let unknown = || Error::invalid("after", "after must be the id of an event");
        let id = after.text().parse().map_err(|_| unknown())?;
        let (_, xact) = find(db, account, id).await?.ok_or_else(unknown)?;
        Ok(Self { account, xact, id })
    }

    /// Returns the first of those that match the filter. Leaves out events of transactions that began before one still
    /// in progress, which may add events before them.
    ///
    /// # Errors
    /// Database errors only.
    pub async fn read(&self, db: &PgPool, filter: &Filter, page: PageRequest<EventId>) -> Result<Page<EventView>> {
        let kinds: Vec<String> = filter.kinds.iter().map(|kind| kind.name().to_owned()).collect();
        let query = sqlx::query_as!(
            Row,
            r#"SELECT id AS "id: EventId", payload FROM events
               WHERE account_id = $1 AND (coalesce(xact, 0), id) > ($2, $3)
                 AND coalesce(xact, 0) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
                 AND ($4::text[] = '{}' OR type = ANY ($4))
                 AND ($5::text IS NULL OR event_object_id(payload) = $5)
                 AND ($6::text IS NULL OR event_timestamp(payload) >= $6)
                 AND ($7::text IS NULL OR event_timestamp(payload) < $7)
               ORDER BY account_id, coalesce(xact, 0), id LIMIT $8"#,
            self.account.uuid(),
            self.xact,
            self.id.uuid(),
            &kinds,
            filter.object_id.as_ref().map(|id| id.0.as_str()),
            filter.created_from.map(|at| at.to_string()),
            filter.created_to.map(|at| at.to_string()),
            page.fetch(),
        );
        views(page.page(query.fetch_all(db).await?))
    }
}
