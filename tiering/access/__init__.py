"""Authentication and authorization: identities, their proofs, privileges and policies, and the audit."""
