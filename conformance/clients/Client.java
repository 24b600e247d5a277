import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.Security;
import java.security.Signature;

/**
 * A long-running client, like a server: Client CONFIGURATION PIN ALIAS reads lines. The line "find" looks for the key,
 * and every other line signs. It keeps the provider and the key. After an error it prints the error and its cause.
 */
public class Client {
    public static void main(String[] arguments) throws Exception {
        Provider token = Security.getProvider("SunPKCS11").configure(arguments[0]);
        Security.addProvider(token);
        PrivateKey key = null;
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                if (line.equals("find")) {
                    key = null;
                    KeyStore store = KeyStore.getInstance("PKCS11", token);
                    store.load(null, arguments[1].toCharArray());
                    key = (PrivateKey) store.getKey(arguments[2], null);
                    System.out.println(key == null ? "no such key" : "found");
                } else {
                    Signature signature = Signature.getInstance("SHA256withECDSA", token);
                    signature.initSign(key);
                    signature.update(new byte[32]);
                    signature.sign();
                    System.out.println("signed");
                }
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println(error + ", because of " + cause);
            }
        }
    }
}
