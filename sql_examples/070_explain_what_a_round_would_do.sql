-- Title: What would a round do now
-- Answers: what does the next round of this table read, and why does none begin? (Nothing is changed by asking.)

CALL fluss.sys.explain_tiering('demo.flights');

-- Expected:
