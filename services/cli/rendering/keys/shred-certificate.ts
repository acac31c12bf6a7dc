// The certificate that a task was shredded, and what its verification has found.

import type { JudgedShred } from "../../../../shared/transfer/shred-evidence.ts";
import { counted, plain, principalText, short } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/** `isCompared`: the key was compared with one that the caller trusts. */
export function renderCertificate(
  { problem, statement, key_id }: JudgedShred,
  isCompared: boolean,
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
