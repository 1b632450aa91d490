//! The documentation of one operation; `operations.rs` has one for each.

use domain::idempotency::MAX_KEY;
use foundation::page::{DEFAULT_LIMIT, ListView, MAX_LIMIT};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::schemas::{Schemas, of_body};

/// The request body of an operation.
pub(crate) struct BodyDoc {
    pub(crate) name: &'static str,
    pub(crate) required: &'static [&'static str],
    pub(crate) schema: RefOr<Schema>,
    pub(crate) example: Value,
}

/// The success response of an operation.
pub(crate) struct ResponseDoc {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    pub(crate) schema: String,
    /// Whether it is a list, which is also returned as CSV.
    pub(crate) is_list: bool,
}

/// What is specific to one operation.
#[derive(Default)]
pub(crate) struct OperationDoc {
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<BodyDoc>,
    pub(crate) response: Option<ResponseDoc>,
    /// Another success status with the same object, and its description.
    pub(crate) other_status: Option<(u16, &'static str)>,
    /// Error statuses in addition to those of every operation.
    pub(crate) errors: &'static [u16],
    /// Operations that take the id of the returned object.
    pub(crate) links: &'static [&'static str],
    /// Headers of the success response, in addition to those of every response.
    pub(crate) headers: Vec<(&'static str, Value)>,
    /// Schemas that the request body refers to.
    pub(crate) request_schemas: Schemas,
    /// Schemas of the responses.
    pub(crate) response_schemas: Schemas,
}

impl OperationDoc {
    pub(crate) fn new(summary: &'static str, description: &'static str) -> Self {
        Self { summary, description, ..Self::default() }
    }

    /// Adds a request body. It is optional if no field is required.
    pub(crate) fn request_body<T: ToSchema>(
        mut self,
        name: &'static str,
        required: &'static [&'static str],
        example: Value,
    ) -> Self {
        T::schemas(&mut self.request_schemas);
        self.body = Some(BodyDoc { name, required, schema: T::schema(), example });
        self
    }

    /// The schema of the request body, with all references inlined.
    pub(crate) fn body_schema(&self) -> Option<Value> {
        let body = self.body.as_ref()?;
        let is_update = body.name.ends_with("Update");
        Some(of_body(&body.schema, body.required, is_update, self.request_schemas.clone()))
    }

    /// Adds a success response with one object.
    pub(crate) fn response<T: ToSchema>(mut self, status: u16, description: &'static str) -> Self {
        T::schemas(&mut self.response_schemas);
        self.response_schemas.push((T::name().into_owned(), T::schema()));
        self.response = Some(ResponseDoc { status, description, schema: T::name().into_owned(), is_list: false });
        self
    }

    /// Adds another success status with the same object.
    pub(crate) fn or_status(mut self, status: u16, description: &'static str) -> Self {
        self.other_status = Some((status, description));
        self
    }

    /// Adds a response with a page of objects, and the two pagination parameters.
    pub(crate) fn list_response<T: ToSchema>(mut self, cursor: Value) -> Self {
        let name = format!("{}List", T::name());
        self = self.response::<T>(200, "");
        self.response_schemas.push((name.clone(), ListView::<T>::schema()));
        let description = "A page of the list. With `Accept: text/csv`, all rows as CSV.";
        self.response = Some(ResponseDoc { status: 200, description, schema: name, is_list: true });
        let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
        self.parameter("query", "limit", false, "The page size.", limit).parameter(
            "query",
            "startingAfter",
            false,
            "`nextCursor` of the previous page. A cursor that is not in the list returns 422.",
            cursor,
        )
    }

    pub(crate) fn parameter(
        mut self,
        place: &str,
        name: &str,
        required: bool,
        description: &str,
        schema: Value,
    ) -> Self {
        self.parameters.push(
            json!({"name": name, "in": place, "required": required, "description": description, "schema": schema}),
        );
        self
    }

    pub(crate) fn errors(mut self, statuses: &'static [u16]) -> Self {
        self.errors = statuses;
        self
    }

    pub(crate) fn links(mut self, operations: &'static [&'static str]) -> Self {
        self.links = operations;
        self
    }

    /// Adds the path parameter `id`.
    pub(crate) fn path_id<T: PartialSchema>(self) -> Self {
        self.parameter("path", "id", true, "An unknown id, or one of another account, returns 404.", id::<T>())
    }

    /// Adds `Idempotency-Key` and the header of replayed responses.
    pub(crate) fn idempotent(self) -> Self {
        let key = json!({"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"});
        let description = "Your own id for this request, the same for each retry. The same key with the same body \
                           returns the first response again; with another body, the request returns 422.";
        self.parameter("header", "Idempotency-Key", false, description, key).replayed_header()
    }

    /// Adds the header that marks a replayed response.
    pub(crate) fn replayed_header(mut self) -> Self {
        let header = json!({
            "description": "`true` if this is the stored response of an earlier request; absent otherwise.",
            "schema": {"type": "string", "enum": ["true"]},
        });
        self.headers.push(("Idempotent-Replayed", header));
        self
    }

    /// Adds the header that tells a client that its `Idempotency-Key` had no effect.
    pub(crate) fn ignored_key_header(mut self) -> Self {
        let header = json!({
            "description": "`not-honoured` if the request had an `Idempotency-Key`, which has no effect here; absent \
                            otherwise.",
            "schema": {"type": "string", "enum": ["not-honoured"]},
        });
        self.headers.push(("Idempotency-Key-Status", header));
        self
    }
}

/// The schema of an id.
pub(crate) fn id<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap_or_default()
}
