// Where the threads of LangGraph's own savers are read from.

import type { SavedThread } from "../../../../shared/sdk/langgraph/saved-thread.ts";

export interface ThreadSource {
  /** For reports: without any password. */
  readonly name: string;
  /** The ids of all threads. */
  threads(): Promise<readonly string[]>;
  /** Throws ThreadFault for a row that is damaged or of an unknown form. */
  thread(id: string): Promise<SavedThread>;
  /** Throws CONFLICT if the source may have changed since it was opened. */
  requireUnchanged(): Promise<void>;
  close(): Promise<void>;
}
