//! What an operator looks at and is woken by: dashboards, alerts and runbooks. They are read as files, judged by Prometheus'
//! own tools, and asked of a Prometheus that watches a whole system.

mod away;
mod commands;
mod expressions;
mod files;
mod load;
mod runbooks;
mod running;
