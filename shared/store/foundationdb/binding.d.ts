/**
 * The part of npm `foundationdb` 2.0.1 that the driver calls, and nothing else. Declared here because the
 * package is optional: on a machine without FoundationDB's client library npm drops it, its own types
 * included.
 *
 * Buffers only: the addon can abort the whole process when it is given strings for keys or values.
 */
declare module "foundationdb" {
  export interface Watch {
    /** Resolves true when the key changed, false when the watch was cancelled. */
    readonly promise: Promise<boolean>;
    cancel(): void;
  }

  export interface RangeResult {
    readonly results: [Buffer, Buffer][];
    readonly more: boolean;
  }

  export interface Transaction {
    setOption(code: number, value: number | Buffer | null): void;
    snapshot(): Transaction;
    getReadVersion(): Promise<Buffer>;
    get(key: Buffer): Promise<Buffer | undefined>;
    getRangeNative(
      begin: KeySelector,
      end: KeySelector,
      limit: number,
      targetBytes: number,
      streamingMode: number,
      iteration: number,
      reverse: boolean,
    ): Promise<RangeResult>;
    set(key: Buffer, value: Buffer): void;
    clear(key: Buffer): void;
    clearRange(begin: Buffer, end: Buffer): void;
    atomicOpNative(operation: number, key: Buffer, operand: Buffer): void;
    addReadConflictRange(begin: Buffer, end: Buffer): void;
    addWriteConflictRange(begin: Buffer, end: Buffer): void;
    watch(key: Buffer): Watch;
    /** Wrapped in an object so that returning it from an async function does not wait for the commit. */
    getVersionstamp(): { promise: Promise<Buffer> };
    rawCommit(): Promise<void>;
    rawCancel(): void;
  }

  export interface KeySelector {
    readonly key: Buffer;
    readonly orEqual: boolean;
    readonly offset: number;
  }

  export interface Database {
    setNativeOptions(options: Record<string, number | true>): void;
    rawCreateTransaction(): Transaction;
    close(): void;
  }

  export const keySelector: { firstGreaterOrEqual(key: Buffer): KeySelector };
  export const MutationType: {
    readonly Add: number;
    readonly ByteMax: number;
    readonly SetVersionstampedKey: number;
    readonly SetVersionstampedValue: number;
  };
  export const StreamingMode: { readonly Exact: number };
  export const TransactionOptionCode: { readonly Timeout: number; readonly PriorityBatch: number };

  export function setAPIVersion(version: number): void;
  /** Only before the first `open` of the process. */
  export function configNetwork(options: Record<string, number | true | string | Buffer>): void;
  /** Never fails and never waits; an invalid cluster file shows at the first operation. */
  export function open(clusterFile?: string): Database;
  /**
   * Ends the network thread and waits for it. It does not end while it has results that the main thread has
   * not taken.
   */
  export function stopNetworkSync(): void;
}
