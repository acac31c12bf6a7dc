/** The parts of oidc-provider that the tests use. It has no types of its own. */
declare module "oidc-provider" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  interface Interaction {
    readonly params: { readonly client_id: string; readonly scope: string };
    readonly session?: { readonly accountId: string };
  }

  export default class Provider {
    constructor(issuer: string, configuration: object);
    callback(): (request: IncomingMessage, response: ServerResponse) => void;
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: object,
      options: { readonly mergeWithLastSubmission: boolean },
    ): Promise<void>;
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>;
    Grant: new (of: {
      readonly accountId: string;
      readonly clientId: string;
    }) => { addOIDCScope(scope: string): void; save(): Promise<string> };
  }
}
