-- Every value is new, so these only read.
ALTER TABLE payments VALIDATE CONSTRAINT payments_metadata;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_metadata;
ALTER TABLE invoices VALIDATE CONSTRAINT invoices_metadata;
ALTER TABLE recurring_invoices VALIDATE CONSTRAINT recurring_invoices_metadata;
ALTER TABLE subscriptions VALIDATE CONSTRAINT subscriptions_metadata;
ALTER TABLE plans VALIDATE CONSTRAINT plans_metadata;
ALTER TABLE payment_links VALIDATE CONSTRAINT payment_links_metadata;
ALTER TABLE customers VALIDATE CONSTRAINT customers_metadata;
ALTER TABLE payment_methods VALIDATE CONSTRAINT payment_methods_metadata;
ALTER TABLE webhook_endpoints VALIDATE CONSTRAINT webhook_endpoints_metadata;
