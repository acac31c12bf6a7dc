/** How a display has the electronic signatures of people beside a checkpoint. */

import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { EsignBlock } from "../../protocol/esign.ts";

/** What a display shows, without all that verifies the signatures. */
export const shownBlocks = (signatures: readonly EsignBlock[]): readonly EsignBlock[] =>
  signatures.map(({ signed: _, entry: __, passkey_acts: ___, ...block }) => block);

export interface SplitSignatures {
  readonly own: readonly EsignBlock[];
  readonly others: readonly EsignBlock[];
}

/** Those of the shown version, and those of the other ones, whose persons have not signed what is shown. */
export function splitSignatures(
  { metadata }: Pick<Checkpoint, "metadata">,
  signatures: readonly EsignBlock[],
): SplitSignatures {
  const isOwn = ({ version }: EsignBlock) => version === metadata.version;
  return { own: signatures.filter(isOwn), others: signatures.filter((one) => !isOwn(one)) };
}

/** One checkpoint as JSON with the signatures of all its versions. The checkpoint alone, if it has none. */
export function withSignatures<T extends Pick<Checkpoint, "metadata">>(
  checkpoint: T,
  signatures: readonly EsignBlock[],
): T {
  const { own, others } = splitSignatures(checkpoint, signatures);
  return {
    ...checkpoint,
    ...(own.length > 0 && { electronic_signatures: shownBlocks(own) }),
    ...(others.length > 0 && { other_versions_signatures: shownBlocks(others) }),
  };
}
