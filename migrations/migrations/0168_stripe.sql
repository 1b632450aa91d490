-- upgrade: a worker of an earlier release claims no operations of a provider that it does not know.
ALTER TYPE provider_kind ADD VALUE IF NOT EXISTS 'stripe';
