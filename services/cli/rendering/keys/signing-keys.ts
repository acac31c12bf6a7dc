// Signing keys, one line each, and the signature of a checkpoint.

import {
  type CheckpointSignature,
  hasBegun,
  keyStateOf,
  registeredMs,
  SIGNATURE_PROBLEMS,
  type SignatureProblem,
  type SigningKeyRecord,
} from "../../../../shared/protocol/signing-keys.ts";
import { bulletList } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { plain } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const HEADS = ["KEY", "OWNER", "STATE", "SINCE", "UNTIL"];
const ID_CHARS = 16;

/** The beginning of the id of a signing key, for people. */
export const shortKeyId = (id: string): string => plain(id.slice(0, ID_CHARS));

export function renderSigningKeys(keys: readonly SigningKeyRecord[], view: View): string {
  if (keys.length === 0) return "There are no signing keys: commits are not signed.";
  const inOrder = [...keys].sort((a, b) => registeredMs(a) - registeredMs(b));
  const rows = inOrder.map((key) => [
    shortKeyId(key.key_id),
    plain(key.owner),
    stateText(key, view),
    ago(new Date(registeredMs(key)).toISOString(), view.now),
    endOf(key) ?? "-",
  ]);
  const fit = [undefined, { least: 8 }, undefined, { brief: brieflyAgo }, { leaves: 1 }] as const;
  const table = tableLines(rows, { heads: HEADS, view, fit });
  const ids = "A key is known by the whole id, which --json prints; verifiers need it for --key.";
  return [...table, ...revokedLines(inOrder, view), ids].join("\n");
}

/** A revocation after the end of the key does not move it. */
function endOf({ not_after, revoked_at }: SigningKeyRecord): string | null {
  if (not_after === null || revoked_at === null) return not_after ?? revoked_at;
  return Date.parse(revoked_at) < Date.parse(not_after) ? revoked_at : not_after;
}

/** Below the table, whose last column may be left out on a narrow terminal. */
function revokedLines(keys: readonly SigningKeyRecord[], view: View): string[] {
  const revoked = keys.flatMap(({ key_id: id, revoked_at: at, revoked_reason: reason }) =>
    at === null ? [] : [`${shortKeyId(id)}, signatures after ${plain(at)} (${plain(reason ?? "-")})`],
  );
  return bulletList("Rejected of revoked keys", revoked, view);
}

function stateText(key: SigningKeyRecord, { colors, now }: View): string {
  const state = keyStateOf(key);
  if (state === "revoked") return colors.red(`revoked (${key.revoked_reason ?? "-"})`);
  if (state === "retired") return state;
  if (!hasBegun(key, now)) return colors.yellow("not begun");
  return key.rotation_requested_at === null ? colors.green(state) : colors.yellow("to be replaced");
}

/** `signature` undefined: the checkpoint is unsigned. */
export function signatureText(signature: CheckpointSignature | string | undefined, view: View): string {
  if (typeof signature !== "object") return "unsigned";
  const { state, key_id: id, signed_at: at } = signature;
  const key = id === null ? "" : `, key ${shortKeyId(id)}`;
  const time = at === null ? "" : `, ${exactly(at, view.now)}`;
  if (state === "valid") return `${view.colors.green("valid")}${key}${time}`;
  const meaning = SIGNATURE_PROBLEMS[state as SignatureProblem] ?? "";
  return `${view.colors.red(state)}: ${meaning}${key}${time}`;
}
