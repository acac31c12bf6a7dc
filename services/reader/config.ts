/** The reader's own settings: none so far; the table is here because a service's settings are looked for here. */
import type { ConfigOf, Fields } from "../../shared/runtime/config.ts";

export const readerFields = {} as const satisfies Fields;

export type ReaderConfig = ConfigOf<typeof readerFields>;
