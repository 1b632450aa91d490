//! Records the events that the browser sends: tabs and frames, requests, console errors.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::record::Request;

/// Bodies up to this size are included in the event; longer ones are requested.
const BODY_MAX: u64 = 1 << 16;

/// A JavaScript execution context of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecutionContext {
    pub(super) session: String,
    pub(super) id: i64,
}

/// What an event makes necessary.
pub(super) enum Command {
    /// A command whose response does not matter.
    Notify { session: String, method: &'static str, parameters: Value },
    /// Request the body of the request with this index, because its event did not include it.
    RequestBody { session: String, request: String, index: usize },
}

fn notify(session: &str, method: &'static str, parameters: Value) -> Command {
    Command::Notify { session: session.to_owned(), method, parameters }
}

/// Everything recorded so far.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// The session of each tab, out-of-process frame or worker, by target id.
    sessions: HashMap<String, String>,
    contexts: HashMap<String, ExecutionContext>,
    requests: Vec<Request>,
    /// Headers added by the network stack, which arrive before or after the request. A redirect has the id of the
    /// original request, so both get all of them.
    extra_headers: HashMap<String, Vec<String>>,
    sockets: HashMap<String, String>,
    console_errors: Vec<String>,
}

impl EventLog {
    pub(super) fn session_of(&self, target: &str) -> Option<String> {
        self.sessions.get(target).cloned()
    }

    pub(super) fn context_of(&self, frame: &str) -> Option<ExecutionContext> {
        self.contexts.get(frame).cloned()
    }

    /// The sessions of all open targets.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.sessions.values().cloned().collect()
    }

    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(super) fn console_errors(&self) -> &[String] {
        &self.console_errors
    }

    /// Whether each request has its body or the reason why it has none.
    pub(super) fn has_all_bodies(&self) -> bool {
        self.requests.iter().all(|request| request.body_missing.as_deref() != Some(""))
    }

    /// Stores a requested body.
    pub(super) fn store_body(&mut self, index: usize, response: Result<Value, String>) {
        let Some(request) = self.requests.get_mut(index) else { return };
        let body = response.and_then(|body| match (body["postData"].as_str(), &body["base64Encoded"]) {
            (Some(text), Value::Bool(true)) => STANDARD.decode(text).map_err(|error| error.to_string()),
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, _) => Err("the response has no body".to_owned()),
        });
        request.body_missing = match body {
            Ok(body) => {
                request.body = body;
                None
            }
            Err(error) => Some(error),
        };
    }

    /// Records an event. The commands must be sent before anyone else sees the recorded event.
    pub(super) fn handle(&mut self, session: &str, method: &str, params: &Value) -> Vec<Command> {
        match method {
            "Target.attachedToTarget" => return self.attached(params),
            "Target.detachedFromTarget" => {
                let gone = text(&params["sessionId"]);
                self.sessions.retain(|_, session| *session != gone);
                self.contexts.retain(|_, context| context.session != gone);
            }
            "Runtime.executionContextCreated" => {
                let created = &params["context"];
                if created["auxData"]["isDefault"] == true {
                    let id = created["id"].as_i64().unwrap_or(0);
                    let context = ExecutionContext { session: session.to_owned(), id };
                    self.contexts.insert(text(&created["auxData"]["frameId"]), context);
                }
            }
            "Runtime.executionContextDestroyed" => {
                let id = params["executionContextId"].as_i64().unwrap_or(0);
                let gone = ExecutionContext { session: session.to_owned(), id };
                self.contexts.retain(|_, context| *context != gone);
            }
            "Runtime.executionContextsCleared" => {
                self.contexts.retain(|_, context| context.session != session);
            }
            "Page.javascriptDialogOpening" => {
                self.console_errors.push(format!("a dialog: {}", text(&params["message"])));
                return vec![notify(session, "Page.handleJavaScriptDialog", json!({"accept": true}))];
            }
            "Network.requestWillBeSent" => {
                let (mut request, missing) = request(params);
                request.headers.extend(self.extra_headers.get(&request.id).into_iter().flatten().cloned());
                let (index, id) = (self.requests.len(), request.id.clone());
                self.requests.push(request);
                if missing {
                    return vec![Command::RequestBody { session: session.to_owned(), request: id, index }];
                }
            }
            // Only requests selected by `Tab::drop_responses` are paused, after their responses have arrived.
            "Fetch.requestPaused" => {
                let request = text(&params["requestId"]);
                let failure = json!({"requestId": request, "errorReason": "ConnectionReset"});
                return vec![notify(session, "Fetch.failRequest", failure)];
            }
            "Network.requestWillBeSentExtraInfo" => self.extra_headers(params),
            "Network.webSocketCreated" => {
                let request = Request { method: "GET".into(), url: text(&params["url"]), ..Request::default() };
                self.sockets.insert(text(&params["requestId"]), request.url.clone());
                self.requests.push(request);
            }
            "Network.webSocketFrameSent" => {
                let url = self.sockets.get(&text(&params["requestId"])).cloned().unwrap_or_default();
                let body = text(&params["response"]["payloadData"]).into_bytes();
                self.requests.push(Request { method: "SEND".into(), url, body, ..Request::default() });
            }
            _ => {
                if let Some(console_error) = console_error(method, params) {
                    self.console_errors.push(console_error);
                }
            }
        }
        Vec::new()
    }

    /// A new tab, frame or worker. It is paused until `runIfWaitingForDebugger`, so no event can be missed.
    fn attached(&mut self, params: &Value) -> Vec<Command> {
        let session = text(&params["sessionId"]);
        let info = &params["targetInfo"];
        let mut commands = vec![
            notify(&session, "Network.enable", json!({"maxPostDataSize": BODY_MAX})),
            notify(&session, "Runtime.enable", json!({})),
            notify(&session, "Log.enable", json!({})),
            notify(&session, "Target.setAutoAttach", attach_to_all()),
        ];
        if info["type"] == "page" || info["type"] == "iframe" {
            commands.push(notify(&session, "Page.enable", json!({})));
        }
        if info["type"] == "page" {
            // Only one tab is in front; each must behave as if it were.
            commands.push(notify(&session, "Emulation.setFocusEmulationEnabled", json!({"enabled": true})));
        }
        commands.push(notify(&session, "Runtime.runIfWaitingForDebugger", json!({})));
        self.sessions.insert(text(&info["targetId"]), session);
        commands
    }

    fn extra_headers(&mut self, params: &Value) {
        let (id, headers) = (text(&params["requestId"]), headers(&params["headers"]));
        for request in self.requests.iter_mut().filter(|request| request.id == id) {
            request.headers.extend(headers.iter().cloned());
        }
        self.extra_headers.entry(id).or_default().extend(headers);
    }
}

/// Attaches to all new targets before they run.
pub(super) fn attach_to_all() -> Value {
    json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
}

/// The request, and whether its body must be requested separately.
fn request(params: &Value) -> (Request, bool) {
    let sent = &params["request"];
    let entries = sent["postDataEntries"].as_array();
    let bytes = entries.and_then(|entries| {
        let parts = entries.iter().map(|entry| STANDARD.decode(entry["bytes"].as_str()?).ok());
        parts.collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    });
    let body = bytes.or_else(|| sent["postData"].as_str().map(|text| text.as_bytes().to_vec()));
    let missing = sent["hasPostData"] == true && body.is_none();
    let request = Request {
        method: text(&sent["method"]),
        url: text(&sent["url"]),
        headers: headers(&sent["headers"]),
        body: body.unwrap_or_default(),
        id: text(&params["requestId"]),
        body_missing: missing.then(String::new),
    };
    (request, missing)
}

fn headers(headers: &Value) -> Vec<String> {
    let pairs = headers.as_object().into_iter().flatten();
    pairs.map(|(name, value)| format!("{name}: {}", text(value))).collect()
}

/// Console errors, exceptions, and violations of a page's content security policy.
fn console_error(method: &str, params: &Value) -> Option<String> {
    match method {
        "Log.entryAdded" => {
            let entry = &params["entry"];
            (entry["level"] == "error" || entry["source"] == "security")
                .then(|| format!("{}: {} ({})", text(&entry["source"]), text(&entry["text"]), text(&entry["url"])))
        }
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "assert" => {
            let arguments = params["args"].as_array().into_iter().flatten();
            let arguments: Vec<_> =
                arguments.map(|part| text(part.get("value").unwrap_or(&part["description"]))).collect();
            Some(format!("console: {}", arguments.join(" ")))
        }
        "Runtime.exceptionThrown" => {
            let thrown = &params["exceptionDetails"];
            Some(format!("exception: {} {}", text(&thrown["text"]), text(&thrown["exception"]["description"])))
        }
        _ => None,
    }
}

/// A string unchanged, null as an empty string, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
