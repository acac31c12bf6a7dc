/**
 * One process at a time sends a spool. Two, which a machine with several process namespaces makes possible, would cost duplicates and
 * nothing else: both send the same lines in the same order under the same ids.
 */
import { claimFolder } from "../../runtime/process/folder-lock.ts";

/** Returns how to give it back; undefined while another holder lives. Throws where the folder cannot be written. */
export function claimSpool(folder: string): (() => void) | undefined {
  return claimFolder(folder, "sender");
}
