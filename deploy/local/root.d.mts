export const root: string;
export function isPackage(path: string): boolean;
