// Electronic signatures of people, as 21 CFR 11.50 requires: printed name, date and time with zone, meaning.

import { ESIGN_PROBLEMS, type EsignBlock, type EsignProblem } from "../../../../shared/protocol/esign.ts";
import type { PasskeySummary, SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import type { SplitSignatures } from "../../../../shared/sdk/esign/display.ts";
import { bulletList, field } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const UTC_ZONES: ReadonlySet<string> = new Set(["UTC", "Etc/UTC", "Etc/UCT", "Etc/Zulu"]);

/** The time in the zone of the person, and in UTC, once if they are the same. A zone that this machine does not know is named beside UTC. */
export function signedTimeText(time: string, zone: string): string {
  if (UTC_ZONES.has(zone)) return `${plain(time)} (${plain(zone)})`;
  try {
    const local = new Intl.DateTimeFormat("sv-SE", {
      timeZone: zone,
      dateStyle: "short",
      timeStyle: "medium",
    }).format(new Date(time));
    return `${local} ${plain(zone)} (${plain(time)})`;
  } catch {
    return `${plain(time)} (zone ${plain(zone)})`;
  }
}

/** One line. What a statement that does not verify states is not repeated. */
export function signatureBlockText(block: EsignBlock, { colors }: View): string {
  const { version, newest_version: newest = version } = block;
  // The person has not seen what the checkpoint says now.
  const superseded = newest > version ? colors.yellow(`, superseded by version ${newest}`) : "";
  const { state, printed_name: name, signed_at: at, zone, meaning, reason, signer, method } = block;
  const judged =
    state === "valid"
      ? colors.green("valid")
      : `${colors.red(state)}: ${ESIGN_PROBLEMS[state as EsignProblem] ?? "unknown to this version"}`;
  if (name === null || at === null || zone === null || meaning === null) return judged + superseded;
  const why = reason === undefined ? "" : `, "${plain(reason)}"`;
  const how = method === "webauthn" ? ", with a passkey" : "";
  const id = signer === null ? "" : ` (${plain(signer.subject)} of ${plain(signer.issuer)})`;
  return `${colors.bold(plain(name))}${id}, ${plain(meaning)}, ${signedTimeText(at, zone)}${how}${why}: ${judged}${superseded}`;
}

/** Of one checkpoint; nothing if there are none. A display of one version does not hide that another one is signed. */
export function signatureBlockLines({ own, others }: SplitSignatures, view: View): string[] {
  return [
    ...bulletList(
      "Signed by",
      own.map((block) => signatureBlockText(block, view)),
      view,
    ),
    ...bulletList(
      "Other versions signed by",
      others.map((block) => `version ${block.version}: ${signatureBlockText(block, view)}`),
      view,
    ),
  ];
}

/** Under a table of checkpoints; nothing if there are none. */
export function signedVersionLines(blocks: readonly EsignBlock[], view: View): string[] {
  if (blocks.length === 0) return [];
  return [
    "",
    ...blocks.map(
      (block) =>
        `${shownId(block.checkpoint_id)} version ${block.version} signed by ${signatureBlockText(block, view)}`,
    ),
  ];
}

/** Under the line that names a checkpoint: a line for each signature of its versions, and nothing without one. */
export function signedFields(
  checkpointId: string | null,
  blocks: readonly EsignBlock[],
  view: View,
): string[] {
  return blocks
    .filter(({ checkpoint_id }) => checkpoint_id === checkpointId)
    .map((one) => field("  signed", `version ${one.version}, by ${signatureBlockText(one, view)}`, view));
}

export function renderSignatures(task: string, blocks: readonly EsignBlock[], view: View): string {
  if (blocks.length === 0) return `Task ${plain(task)} has no electronic signatures.`;
  const lines = blocks.map(
    (block) =>
      `${shownId(block.checkpoint_id)} version ${block.version}, audit entry ${block.audit_seq}: ${signatureBlockText(block, view)}`,
  );
  return [
    `Electronic signatures of task ${plain(task)}`,
    "",
    ...lines,
    "",
    counted(blocks.length, "signature"),
  ].join("\n");
}

const HEADS = ["NAME", "SUBJECT", "ISSUER", "SIGNED", "STATE"];

export function renderSigners(signers: readonly SignerRecord[], view: View): string {
  if (signers.length === 0) return "No person has signed.";
  const rows = signers.map((one) => [
    plain(one.printed_name ?? "-"),
    plain(one.subject),
    plain(one.issuer),
    one.last_signed_at === null ? "never" : ago(one.last_signed_at, view.now),
    stateText(one, view),
  ]);
  const fit = [{ least: 8 }, { least: 8 }, { leaves: 1 }, undefined, undefined] as const;
  const people = tableLines(rows, { heads: HEADS, view, fit });
  const passkeys = signers.flatMap(({ passkeys = [], revoked_at, revoked_reason }) =>
    passkeys.map((passkey) => ({ ...passkey, person: { revoked_at, revoked_reason } })),
  );
  if (passkeys.length === 0) return people.join("\n");
  return [...people, "", ...passkeyTable(passkeys, view)].join("\n");
}

interface ShownPasskey extends PasskeySummary {
  /** A revoked person signs with none. */
  readonly person: Pick<SignerRecord, "revoked_at" | "revoked_reason">;
}

const PASSKEY_HEADS = ["PASSKEY", "OF", "ENROLLED BY", "USED", "STATE"];

/** The ids are whole, because `signers revoke-passkey` takes them. */
function passkeyTable(passkeys: readonly ShownPasskey[], view: View): string[] {
  const rows = passkeys.map((one) => [
    plain(one.passkey_id),
    plain(one.printed_name),
    principalText(one.enrolled_by),
    ago(one.last_used_at, view.now),
    passkeyText(one, view),
  ]);
  const fit = [undefined, { least: 8 }, { least: 8 }, undefined, undefined] as const;
  return tableLines(rows, { heads: PASSKEY_HEADS, view, fit });
}

function passkeyText(one: ShownPasskey, view: View): string {
  const { revoked_at, revoked_reason } = one.person;
  if (one.revoked_at !== null || revoked_at === null) return stateText(one, view);
  return view.colors.red(`revoked with the person (${plain(revoked_reason ?? "-")})`);
}

function stateText(
  { revoked_at, revoked_reason }: Pick<SignerRecord, "revoked_at" | "revoked_reason">,
  { colors }: View,
): string {
  return revoked_at === null
    ? colors.green("active")
    : colors.red(`revoked (${plain(revoked_reason ?? "-")})`);
}
