-- A merchant's own data on its objects. NULL where there is none.
ALTER TABLE payments ADD COLUMN metadata jsonb, ADD COLUMN external_id text, ADD COLUMN description text;
ALTER TABLE refunds ADD COLUMN metadata jsonb;
ALTER TABLE invoices ADD COLUMN metadata jsonb, ADD COLUMN external_id text;
ALTER TABLE recurring_invoices ADD COLUMN metadata jsonb, ADD COLUMN external_id text;
ALTER TABLE subscriptions ADD COLUMN metadata jsonb, ADD COLUMN external_id text, ADD COLUMN description text;
ALTER TABLE plans ADD COLUMN metadata jsonb, ADD COLUMN external_id text;
ALTER TABLE payment_links ADD COLUMN metadata jsonb, ADD COLUMN external_id text;
ALTER TABLE customers ADD COLUMN metadata jsonb;
ALTER TABLE payment_methods ADD COLUMN metadata jsonb, ADD COLUMN external_id text;
ALTER TABLE webhook_endpoints ADD COLUMN metadata jsonb;

ALTER TABLE payments ADD CONSTRAINT payments_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE refunds ADD CONSTRAINT refunds_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE invoices ADD CONSTRAINT invoices_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE recurring_invoices ADD CONSTRAINT recurring_invoices_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE subscriptions ADD CONSTRAINT subscriptions_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE plans ADD CONSTRAINT plans_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE payment_links ADD CONSTRAINT payment_links_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE customers ADD CONSTRAINT customers_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_metadata CHECK (jsonb_typeof(metadata) = 'object') NOT VALID;
