/** How a display has the electronic signatures of people beside a checkpoint. */

import type { Checkpoint } from "../../protocol/checkpoint.ts";
import {
  type DisplayedSignatures,
  type EsignBlock,
  type SignaturesBeside,
  shownBlocks,
  withoutSignatures,
} from "../../protocol/esign.ts";

export interface SplitSignatures {
  readonly own: readonly EsignBlock[];
  readonly others: readonly EsignBlock[];
}

export type DisplayedCheckpoint = Checkpoint & DisplayedSignatures;

/** Those of the shown version, and those of the other ones, whose persons have not signed what is shown. */
export function splitSignatures(
  { metadata }: Pick<Checkpoint, "metadata">,
  signatures: readonly EsignBlock[],
): SplitSignatures {
  const isOwn = ({ version }: EsignBlock) => version === metadata.version;
  return { own: signatures.filter(isOwn), others: signatures.filter((one) => !isOwn(one)) };
}

/** The signatures of all versions of one checkpoint as members of a display, none if there are none. */
export function displayedSignatures(
  checkpoint: Pick<Checkpoint, "metadata">,
  signatures: readonly EsignBlock[],
): DisplayedSignatures {
  const { own, others } = splitSignatures(checkpoint, signatures);
  return {
    ...(own.length > 0 && { electronic_signatures: shownBlocks(own) }),
    ...(others.length > 0 && { other_versions_signatures: shownBlocks(others) }),
  };
}

/** One checkpoint as JSON with the signatures of all its versions. The checkpoint alone, if it has none. */
export function withSignatures<T extends Pick<Checkpoint, "metadata">>(
  checkpoint: T,
  signatures: readonly EsignBlock[],
): T & DisplayedSignatures {
  // What an agent of an earlier version wrote under these names is no signature.
  return { ...withoutSignatures(checkpoint), ...displayedSignatures(checkpoint, signatures) };
}

/** The checkpoint of an answer with the signatures that are beside it there. The same object if there are none. */
export function withAnswered<T extends Pick<Checkpoint, "metadata">>(
  checkpoint: T,
  { electronic_signatures: signatures, ...left }: SignaturesBeside,
): T & DisplayedSignatures {
  const { electronic_signatures_left_out: leftOut, electronic_signatures_unread: unread } = left;
  const isUnread = unread !== undefined;
  if (signatures === undefined && leftOut === undefined && !isUnread) return withoutSignatures(checkpoint);
  return {
    ...withSignatures(checkpoint, signatures ?? []),
    ...(leftOut !== undefined && { electronic_signatures_left_out: leftOut }),
    ...(isUnread && { electronic_signatures_unread: unread }),
  };
}
