// The measures of a soak, and what one sample contains. Each measure belongs to a subject: a process, a stream, a folder, a family of rows.

/** What a thread reports about itself. */
export interface ThreadSample {
  readonly thread: string;
  readonly live_heap: number;
  readonly external: number;
  /** Open resources by their kind, as Node names them. */
  readonly handles: Readonly<Record<string, number>>;
}

export const KINDS = {
  resident: { title: "resident memory", unit: "bytes" },
  anonymous: { title: "memory without files", unit: "bytes" },
  live_heap: { title: "heap after a collection", unit: "bytes" },
  external: { title: "memory outside the heap", unit: "bytes" },
  handles: { title: "open handles", unit: "" },
  descriptors: { title: "file descriptors", unit: "" },
  threads: { title: "threads", unit: "" },
  messages: { title: "messages", unit: "" },
  bytes: { title: "bytes", unit: "bytes" },
  consumers: { title: "consumers", unit: "" },
  connections: { title: "connections", unit: "" },
  subscriptions: { title: "subscriptions", unit: "" },
  files: { title: "files", unit: "" },
  rows: { title: "rows", unit: "" },
  used: { title: "pages in use", unit: "bytes" },
  free: { title: "free pages", unit: "bytes" },
  readers: { title: "places of readers", unit: "" },
  behind: { title: "entries behind", unit: "" },
} as const;
export type Kind = keyof typeof KINDS;

export type Values = Readonly<Record<string, Readonly<Partial<Record<Kind, number>>>>>;

export interface Sample {
  /** Since the start of the load. */
  readonly hours: number;
  /** Commands that were committed since the start of the load. */
  readonly commands: number;
  /** By subject. A value that could not be measured is absent. */
  readonly values: Values;
}

/** The prefix of the subjects of families of rows. */
export const ROWS = "store: ";
export const OF_RESIDENTS = " of tasks that stay";
export const STREAM = "stream ";
export const FOLDER = "folder ";
