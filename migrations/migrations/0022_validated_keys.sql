-- Four keys were added NOT VALID, so that no table was read under a strong lock: they hold for every row written since, and say
-- nothing of rows from before. Now they are checked against all rows, which lets them be relied on.
--
-- VALIDATE holds SHARE UPDATE EXCLUSIVE on the table that it reads, which neither readers nor writers wait for (another DDL and
-- VACUUM do), and ROW SHARE on the table that is named. It takes as long as one reading of the table. Each was written by code
-- that had the key, but for rows that have NULL there, so none can fail.
ALTER TABLE payments VALIDATE CONSTRAINT payments_invoice;
ALTER TABLE payments VALIDATE CONSTRAINT payments_payment_link;
ALTER TABLE invoices VALIDATE CONSTRAINT invoices_recurring_invoice;
ALTER TABLE invoices VALIDATE CONSTRAINT invoices_subscription;
