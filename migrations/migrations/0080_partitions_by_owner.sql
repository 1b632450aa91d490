-- The programs log in as a role that owns nothing. Partitions are made and dropped on its behalf by the owner of these two functions,
-- in which only tables of ours are named. Nobody else may call them.
ALTER FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer) SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION drop_monthly_partitions(regclass, timestamptz) SECURITY DEFINER SET search_path = public, pg_temp;
REVOKE EXECUTE ON FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION drop_monthly_partitions(regclass, timestamptz) FROM PUBLIC;
