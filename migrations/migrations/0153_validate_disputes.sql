ALTER TABLE payments VALIDATE CONSTRAINT payments_disputed;
