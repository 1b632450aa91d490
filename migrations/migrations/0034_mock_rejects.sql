-- The mock can be made to refuse what follows a charge, for good: a provider that decides against it, and not one that is away.
ALTER TABLE mock.accounts ADD COLUMN reject boolean NOT NULL DEFAULT false;
