/**
 * The version of what decides about operations: the policies of the fleet, and the rights of the roles. Entries of commands name it, so an
 * auditor sees under which rules each was allowed. 21 CFR 11.10(g).
 */
import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import { roleOperations } from "../../protocol/operation-rights.ts";
import type { Policies } from "../../protocol/policy.ts";

/** Hex digits of the version that an entry holds. */
const SHORT = 16;

const known = new WeakMap<Policies, string>();

/** SHA-256 of both in canonical JSON, in hex. */
export function policyVersion(policies: Policies): string {
  const found = known.get(policies);
  if (found !== undefined) return found;
  const version = sha256Hex(canonicalText({ policies, rights: roleOperations() }));
  known.set(policies, version);
  return version;
}

export function shortPolicyVersion(policies: Policies): string {
  return policyVersion(policies).slice(0, SHORT);
}
