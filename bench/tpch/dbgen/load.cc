// The library of DuckDB that the Go module brings has the extension tpch in it, but nothing there registers it: its list of
// extensions to load is made without. This does what that list does for the others. The declarations are those of
// DuckDB's headers, which the module does not bring, as far as they are needed; a test holds them against the library.
#include <memory>
#include <string>

namespace duckdb {
class DatabaseInstance;

class ExtensionLoader {
public:
	ExtensionLoader(DatabaseInstance &db, const std::string &name);
	void FinalizeLoad();

private:
	alignas(16) char room[4096]; // more than its members take
};

struct Wrapper { // what a duckdb_database points to
	std::shared_ptr<std::shared_ptr<DatabaseInstance>> database;
};
} // namespace duckdb

extern "C" {
void tpch_duckdb_cpp_init(duckdb::ExtensionLoader &loader);

// Returns null, or what went wrong, which is static.
const char *load_tpch(void *db) {
	try {
		auto &instance = **static_cast<duckdb::Wrapper *>(db)->database;
		// Never destroyed: its destructor is not in the library, and this is once for each process.
		auto loader = new duckdb::ExtensionLoader(instance, "tpch");
		tpch_duckdb_cpp_init(*loader);
		loader->FinalizeLoad();
		return nullptr;
	} catch (const std::exception &e) {
		static std::string why;
		why = e.what();
		return why.c_str();
	} catch (...) {
		return "an exception of unknown type";
	}
}
}
