-- No row had a last billed date when the constraint was added, and every row written since was checked.
ALTER TABLE recurring_invoices VALIDATE CONSTRAINT recurring_invoices_next_after_billed;
