//! The command lines of operators, run against a cluster.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Cluster;
use crate::{
    CommandOutput, GatewayAccount,
    account::{ctl_output, ctl_with_closed_stdout, run_ctl},
    gateway_account::{self, run_gateway},
};

impl Cluster {
    /// Runs `ctl` against this cluster and returns the JSON it prints.
    ///
    /// # Errors
    /// When it fails, with its error output.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<Value> {
        run_ctl(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// Runs `ctl` against this cluster and returns its output whether it succeeds or fails.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctl_output(&self, arguments: &[&str]) -> Result<CommandOutput> {
        ctl_output(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// As [`Cluster::ctl_output`], with these environment variables instead of the cluster's. An empty value unsets one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctl_output_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Result<CommandOutput> {
        let mut environment = self.environment.clone();
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        ctl_output(&self.programs.path("ctl")?, &environment, arguments).await
    }

    /// As [`Cluster::ctl_output`], but standard output is a pipe that nothing reads.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn ctl_with_closed_stdout(&self, arguments: &[&str]) -> Result<CommandOutput> {
        ctl_with_closed_stdout(&self.programs.path("ctl")?, &self.environment, arguments).await
    }

    /// Starts `ctl` against this cluster without waiting; dropping the child kills it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_ctl(&self, arguments: &[&str]) -> Result<tokio::process::Child> {
        let mut command = tokio::process::Command::new(self.programs.path("ctl")?);
        command.args(arguments).envs(&self.environment).stdin(Stdio::null()).stdout(Stdio::null());
        command.kill_on_drop(true).spawn().context("cannot start ctl")
    }

    /// Runs the gateway's command line against this cluster and returns the JSON it prints.
    ///
    /// # Errors
    /// When it fails, with its error output.
    pub async fn run_gateway(&self, arguments: &[&str]) -> Result<Value> {
        run_gateway(&self.programs, &self.environment, arguments).await
    }

    /// A gateway account with these options for `gateway account create`. An existing account gets new keys.
    ///
    /// # Errors
    /// When the gateway's command line fails.
    pub async fn gateway_account(&self, username: &str, options: &[&str]) -> Result<GatewayAccount> {
        gateway_account::ensure(&self.programs, &self.environment, username, options).await
    }
}
