//! What the document says of one operation, written down beside the others in `operations.rs`.

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use common::page::ListView;

use super::schemas::of_body;

/// Schemas by their names, as the derives give them.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// The body that an operation takes.
pub(crate) struct BodySheet {
    pub(crate) name: &'static str,
    pub(crate) required: &'static [&'static str],
    pub(crate) schema: RefOr<Schema>,
    pub(crate) example: Value,
}

/// The answer of success.
pub(crate) struct AnswerSheet {
    pub(crate) status: u16,
    pub(crate) description: &'static str,
    pub(crate) schema: String,
}

/// All that is particular to one operation.
#[derive(Default)]
pub(crate) struct Sheet {
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<BodySheet>,
    pub(crate) answer: Option<AnswerSheet>,
    /// Another status of success with the same object, and when.
    pub(crate) otherwise: Option<(u16, &'static str)>,
    /// Refusals beyond those of every operation.
    pub(crate) refusals: &'static [u16],
    /// Operations that take the id of the object answered.
    pub(crate) followed_by: &'static [&'static str],
    /// A header of success, beyond those of every answer.
    pub(crate) header: Option<(&'static str, Value)>,
    /// Schemas of fields of bodies.
    pub(crate) request_schemas: Schemas,
    /// Schemas of answers.
    pub(crate) answer_schemas: Schemas,
}

impl Sheet {
    pub(crate) fn new(summary: &'static str, description: &'static str) -> Self {
        Self { summary, description, ..Self::default() }
    }

    /// It takes a body; without required fields, also none.
    pub(crate) fn takes<T: ToSchema>(
        mut self,
        name: &'static str,
        required: &'static [&'static str],
        example: Value,
    ) -> Self {
        T::schemas(&mut self.request_schemas);
        self.body = Some(BodySheet { name, required, schema: T::schema(), example });
        self
    }

    /// The schema of its body, with everything that it refers to in its place.
    pub(crate) fn body_schema(&self) -> Option<Value> {
        self.body.as_ref().map(|body| of_body(body, self.request_schemas.clone()))
    }

    /// It answers with one object.
    pub(crate) fn answers<T: ToSchema>(mut self, status: u16, description: &'static str) -> Self {
        T::schemas(&mut self.answer_schemas);
        self.answer_schemas.push((T::name().into_owned(), T::schema()));
        self.answer = Some(AnswerSheet { status, description, schema: T::name().into_owned() });
        self
    }

    /// It answers with the same object under another status, too.
    pub(crate) fn or(mut self, status: u16, description: &'static str) -> Self {
        self.otherwise = Some((status, description));
        self
    }

    /// It answers with a page of objects, and takes the two parameters of pages.
    pub(crate) fn lists<T: ToSchema>(mut self, description: &'static str, cursor: Value) -> Self {
        let name = format!("{}List", T::name());
        self = self.answers::<T>(200, description);
        self.answer_schemas.push((name.clone(), ListView::<T>::schema()));
        self.answer = Some(AnswerSheet { status: 200, description, schema: name });
        let limit = json!({"type": "integer", "minimum": 1, "maximum": common::page::MAX_LIMIT, "default": common::page::DEFAULT_LIMIT});
        self.parameter("query", "limit", false, "The size of the page.", limit).parameter(
            "query",
            "startingAfter",
            false,
            "`nextCursor` of the page before. One that names no row of the list is 422.",
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

    pub(crate) fn refuses(mut self, statuses: &'static [u16]) -> Self {
        self.refusals = statuses;
        self
    }

    pub(crate) fn followed_by(mut self, operations: &'static [&'static str]) -> Self {
        self.followed_by = operations;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, header: Value) -> Self {
        self.header = Some((name, header));
        self
    }
}
