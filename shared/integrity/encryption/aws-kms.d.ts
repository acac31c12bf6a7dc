/**
 * The part of the official client of AWS KMS that root keys use. It is declared here, because an installation has the package only if it
 * uses a key of KMS.
 */
declare module "@aws-sdk/client-kms" {
  interface KMSClientConfig {
    readonly region: string;
    readonly maxAttempts: number;
    readonly requestHandler: {
      readonly connectionTimeout: number;
      readonly requestTimeout: number;
      readonly throwOnRequestTimeout: boolean;
    };
  }
  interface SendOptions {
    readonly abortSignal: AbortSignal;
  }
  interface Bound {
    readonly KeyId: string;
    readonly EncryptionContext: Readonly<Record<string, string>>;
  }
  class EncryptCommand {
    /** So that the two kinds of command differ as types. */
    private readonly encrypts: never;
    constructor(input: Bound & { readonly Plaintext: Uint8Array });
  }
  class DecryptCommand {
    private readonly decrypts: never;
    constructor(input: Bound & { readonly CiphertextBlob: Uint8Array });
  }
  class KMSClient {
    constructor(config: KMSClientConfig);
    send(command: EncryptCommand, options: SendOptions): Promise<{ readonly CiphertextBlob?: Uint8Array }>;
    send(command: DecryptCommand, options: SendOptions): Promise<{ readonly Plaintext?: Uint8Array }>;
  }
}
