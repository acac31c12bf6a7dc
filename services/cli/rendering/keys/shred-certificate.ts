// The certificate that a task was shredded, and what its verification has found.

import type { JudgedShred } from "../../../../shared/transfer/shred-evidence.ts";
import { counted, plain, principalText, short } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/**
 * What is known of the credentials behind the two names. `unissued`: those without issued ones; null: the register of credentials is
 * not here.
 */
export function personsText(unissued: readonly string[] | null): string {
  if (unissued === null)
    return "The fleet knows both only by the names in their credentials. The user that runs the fleet can use any name: see `fleet access matrix --at TIME` on its machine.";
  if (unissued.length === 0)
    return "Both had issued credentials at that time. The user that runs the fleet can use any name without them.";
  const names = unissued.map((name) => principalText(name)).join(" and ");
  return `No credentials were issued for ${names} at that time: the user that runs the fleet acted under ${unissued.length === 1 ? "this name" : "these names"}, or a person with a token of an identity provider.`;
}

interface Compared {
  /** The key was compared with one that the caller trusts. */
  readonly isCompared: boolean;
  /** As in {@link personsText}. */
  readonly unissued: readonly string[] | null;
}

export function renderCertificate(
  { problem, statement, key_id }: JudgedShred,
  { isCompared, unissued }: Compared,
  { colors }: View,
): string {
  const verdict =
    problem === null
      ? colors.green("The certificate is valid.")
      : colors.red(`The certificate proves nothing: ${problem}.`);
  if (statement === null) return verdict;
  const { task, tenant, reason, case: reference, request, approval, end, checkpoints, keys } = statement;
  const lines = [
    verdict,
    `The content of task ${plain(task)} of tenant ${plain(tenant)} was removed from the store at ${short(end.at)}: ${counted(checkpoints.count, "checkpoint")}.`,
    "Mirror, search index and artifacts follow within two days, and the reasons of handoffs and recoveries in events within seven. It says nothing about backups, exports and copies that agents kept.",
    `Reason: ${short(reason)}${reference === null ? "" : `, case ${short(reference)}`}`,
    `Requested by ${principalText(request.by)} at ${short(request.at)} (entry ${request.seq})`,
    `Approved by ${principalText(approval.by)} at ${short(approval.at)} (entry ${approval.seq})`,
    personsText(unissued),
    `Ended with entry ${end.seq}, hash ${end.hash}`,
    ...(keys === undefined
      ? []
      : [
          `Destroyed in the store: ${keys.length === 1 ? "the key" : "the keys"} ${keys.map(short).join(", ")} of the content`,
        ]),
    ...(key_id === null ? [] : [`Key: ${key_id}`]),
    ...(problem === null && !isCompared ? ["Compare the key with one that you trust: --key ID"] : []),
  ];
  return lines.join("\n");
}
