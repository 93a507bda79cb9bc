-- Flights by the length of their text, as the lake has them: `tier_before_run` brought every row there.
select length(text) as text_length, count(*) as flights, max(id) as newest_id
from {{ source('demo', 'flights_in_lake') }}
group by length(text)
