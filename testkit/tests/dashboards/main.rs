//! Dashboards, alerts and runbooks: their files are checked, by us and by promtool, and their queries are run on a
//! Prometheus that scrapes a whole system.

mod commands;
mod expressions;
mod files;
mod load;
mod outages;
mod runbooks;
mod running;
