-- A day that was billed is never billed again by the same recurring invoice, whatever its cadence was changed to: its next date
-- is after the last date for which it has an invoice. Rows from before have no such date until their next one is found anew; until
-- then their invoices tell it.
ALTER TABLE recurring_invoices ADD COLUMN last_billed_date date;
ALTER TABLE recurring_invoices ADD CONSTRAINT recurring_invoices_next_after_billed CHECK (next_date > last_billed_date) NOT VALID;
